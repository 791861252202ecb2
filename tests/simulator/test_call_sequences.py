"""The AWS calls of a cluster's life, and of a platform team's work, are those in ``data/``.

Hosts' own calls are left out.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask import Cluster, Workspace
from terradask.errors import TerradaskError
from terradask_simulator import Simulator

from ..golden import check_golden
from ..quick_provider import QuickProvider
from ..waiting import eventually
from .call_sequences import Recording, recording, told

pytestmark = [pytest.mark.simulator, pytest.mark.slow, pytest.mark.life]

NAME = "calls"
DATA = Path(__file__).parent / "data"

#: What is asked of AWS's quotas, in the background, when a cluster is first made larger.
QUOTA_READS = {
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "servicequotas:GetServiceQuota",
}

SIDE_BY_SIDE = [
    # What a start prepares between claiming the run and asking for hosts, in four threads.
    re.compile(
        r"clusters/\w+/software\.lock$|:CreateOrUpdateTags |:PutScheduledUpdateGroupAction "
        r"|:PutSecretValue .*scheduler, .*worker\}"
    ),
    # What a stop does when the groups are at zero, and before the run's documents go.
    re.compile(
        r":BatchDeleteScheduledAction |:UpdateSecretVersionStage "
        r"|:PutSecretValue .*-without-keys\]|/events(/<run id>)?\.json$"
    ),
    # Groups are brought to zero in the order in which AWS lists them.
    re.compile(r":SetDesiredCapacity .*DesiredCapacity=0 "),
]

#: A run's account is opened and kept by a thread of its own.
UNORDERED = re.compile(r"^s3:PutObject .* Key=accounts/")

#: Which hosts have reported while a client waits for them is a matter of time.
BY_CHANCE = re.compile(r"^s3:GetObject .*/hosts/<i>\.json$")


def compare(recorded: Recording, name: str) -> None:
    """Compare what was called with a file."""
    check_golden(
        DATA / f"calls-{name}.txt",
        told(recorded, side_by_side=SIDE_BY_SIDE, unordered=UNORDERED, by_chance=BY_CHANCE),
    )


@contextlib.contextmanager
def removed_on_failure(*removals: Callable[[], object]) -> Iterator[None]:
    """Leave nothing to other tests, which share the embedded AWS."""
    try:
        yield
    except BaseException:
        for remove in removals:
            with contextlib.suppress(TerradaskError):
                remove()
        raise


@pytest.mark.usefixtures("sim_environ")
def test_a_clusters_life(sim: Simulator, caplog: pytest.LogCaptureFixture) -> None:
    # A log shows what the live view would, which reads prices every minute.
    caplog.set_level(logging.INFO, logger="terradask")
    workspace = Workspace.load()
    with (
        removed_on_failure(lambda: workspace.destroy_cluster(NAME)),
        sim.hollow_hosts(),
        recording(sim) as recorded,
    ):
        recorded.phase("create")
        cluster = Cluster(NAME, n_workers=1, max_workers=5, wait_for_workers=True)
        for n, first in ((2, True), (5, False), (2, False)):
            recorded.phase(f"scale to {n}")
            cluster.scale(n)
            eventually(lambda n=n: len(cluster.observed) == n == len(cluster.requested))
            if first:
                eventually(lambda: recorded.actions() >= QUOTA_READS)
        recorded.phase("stop")
        cluster.stop()
        recorded.phase("start")
        cluster = Cluster(NAME, n_workers=1, wait_for_workers=True)
        assert cluster.origin == "started"
        recorded.phase("attach and leave")
        with Cluster(NAME) as second:
            assert second.origin == "attached"
        recorded.phase("close")
        cluster.close()
        recorded.phase("start without attaching")
        workspace.deployment(NAME).start(n_workers=1)
        recorded.phase("destroy")
        workspace.destroy_cluster(NAME)
    compare(recorded, "cluster")


@pytest.fixture
def team(
    sim_environ: dict[str, str],
    quick_provider: QuickProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[int, int], Workspace]:
    """Load a workspace of its own, with so long a retention of logs and so many workers, on what
    the network of `sim` has.
    """
    baseline = Workspace.load().baseline()
    zone = baseline.zones["us-east-1a"]
    network = {
        "vpc_id": baseline.vpc_id,
        "subnets": {
            "us-east-1a": {"scheduler": zone.scheduler_subnet_id, "worker": zone.worker_subnet_id}
        },
        "security_groups": baseline.security_groups,
        "instance_profiles": baseline.instance_profiles,
        "ingress": [],
    }
    # Beside the workspace that everybody shares: with a state of its own.
    monkeypatch.delenv("TERRADASK_STATE_DIR")
    (tmp_path / "terradask.toml").write_text('[workspace]\nname = "team"\n')
    quick_provider.lock(tmp_path)

    def load(log_retention_days: int, max_workers: int) -> Workspace:
        return Workspace.load(
            tmp_path,
            network={**network, "log_retention_days": log_retention_days},
            cluster={"max_workers": max_workers},
        )

    return load


def test_the_platform_teams_work(sim: Simulator, team: Callable[[int, int], Workspace]) -> None:
    workspace = team(30, 4)
    with (
        removed_on_failure(lambda: workspace.destroy_cluster("etl"), workspace.destroy_network),
        recording(sim) as recorded,
    ):
        for workspace, what in ((team(30, 4), "network"), (team(7, 4), "changed network")):
            recorded.phase(f"plan the {what}")
            plan = workspace.plan_network()
            recorded.phase(f"apply the {what}")
            workspace.apply(plan)
        for workspace, what in ((team(7, 4), "cluster"), (team(7, 8), "changed cluster")):
            recorded.phase(f"plan the {what}")
            plan = workspace.plan_cluster("etl")
            recorded.phase(f"apply the {what}")
            workspace.apply(plan)
        recorded.phase("destroy the cluster")
        workspace.destroy_cluster("etl")
        recorded.phase("destroy the network")
        workspace.destroy_network()
    compare(recorded, "platform-team")
