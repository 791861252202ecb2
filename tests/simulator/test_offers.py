"""A user of an offer: makes a cluster of it, and meets its bounds at each way to a larger one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from terradask import Cluster, offers
from terradask.errors import InvalidInput, SettingsError
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import eventually
from .left_alone import numbers

pytestmark = [pytest.mark.simulator, pytest.mark.life]

OFFERS = """
[offers.small]
description = "A cluster for a try"
worker_vm_types = ["m6i.xlarge"]
scheduler_vm_types = ["m6i.xlarge"]
n_workers = 1
[offers.small.choose]
n_workers = { min = 1, max = 3 }
spot_policy = ["on-demand", "spot"]
# The tests' own environment has some.
scheduler_options = "any"
"""


def test_a_cluster_of_an_offer_stays_within_it(
    sim: Simulator, sim_environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "terradask.toml").write_text(OFFERS)
    assert offers(tmp_path)["small"].max_workers == 3
    with pytest.raises(SettingsError, match="allowed: 1 to 3"):
        Cluster("tried", offer="small", n_workers=4, settings=tmp_path)
    with (
        sim.hollow_hosts(),
        Cluster(
            "tried", offer="small", n_workers=2, settings=tmp_path, package_sync=False
        ) as cluster,
    ):
        group = sim.client("autoscaling").describe_auto_scaling_groups(
            AutoScalingGroupNames=["terradask-default-tried-workers"]
        )["AutoScalingGroups"][0]
        # AWS itself refuses more, whoever asks.
        assert (group["DesiredCapacity"], group["MaxSize"]) == (2, 3)
        for ask in (lambda: cluster.scale(4), lambda: cluster.adapt(minimum=1, maximum=4)):
            with pytest.raises(InvalidInput, match="by the offer 'small'"):
                ask()
        scaled = in_this_process("scale", "tried", "4", environ=sim_environ, folder=tmp_path)
        assert (scaled.returncode, "by the offer 'small'" in scaled.stderr) == (2, True)
        eventually(lambda: numbers(sim, "tried") == (2, 2))
        listed = in_this_process("list", environ=sim_environ, folder=tmp_path)
        head, *rows = listed.stdout.splitlines()
        (row,) = (one for one in rows if one.startswith("tried "))
        assert row[head.index("OFFER") :].startswith("small ")
        shown = in_this_process("status", "tried", "--json", environ=sim_environ, folder=tmp_path)
        assert json.loads(shown.stdout)["offer"] == "small"
        text = in_this_process("status", "tried", environ=sim_environ, folder=tmp_path)
        assert "offer      small" in text.stdout
        # Others attach without naming it; the numbers stay within.
        Cluster("tried", settings=tmp_path, package_sync=False).close()
        with pytest.raises(InvalidInput, match="settings other than the given"):
            Cluster("tried", offer="small", spot_policy="spot", settings=tmp_path)
