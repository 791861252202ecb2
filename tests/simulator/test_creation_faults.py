"""Clusters that are made by several at once, and clusters whose making is refused at any of its
calls.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask.errors import TerradaskError
from terradask_simulator import Simulator
from terradask_simulator.iam import minus_action

from .. import invariants
from ..seeds import drawn
from ..waiting import HANG_SECONDS, PROCESS_SECONDS
from .unsettled_aws import unsettled

pytestmark = [pytest.mark.simulator]

RACER = """
import json, sys
from terradask import Cluster, Workspace
try:
    cluster = Cluster(name="contested", n_workers=1, wait_for_workers=False, show_widget=False)
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]), flush=True)
    sys.exit()
run = Workspace.load().deployment("contested").run()
print(json.dumps([cluster.origin, run.run_id]), flush=True)
sys.stdin.readline()
cluster.close()
"""

#: What making and starting a cluster asks for, and can be refused.
CALLS = (
    "autoscaling:CreateAutoScalingGroup",
    "autoscaling:CreateOrUpdateTags",
    "autoscaling:PutScheduledUpdateGroupAction",
    "autoscaling:SetDesiredCapacity",
    "secretsmanager:CreateSecret",
    "secretsmanager:PutSecretValue",
)


@contextlib.contextmanager
def racers(sim: Simulator, folder: Path, number: int) -> Iterator[list[subprocess.Popen[str]]]:
    with contextlib.ExitStack() as stack:
        running = []
        for index in range(number):
            # Every second one is on a machine of its own, as far as Terraform's folders tell.
            own = {"TERRADASK_STATE_DIR": str(folder / str(index))} if index % 2 else {}
            racer = subprocess.Popen(
                [sys.executable, "-c", RACER],
                cwd=folder,
                env={**sim.environ, **own},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            running.append(stack.enter_context(racer))
        try:
            yield running
        finally:
            for racer in running:
                if racer.poll() is None:
                    racer.kill()


@pytest.mark.soak
@pytest.mark.parametrize("number", [3, 10])
def test_several_who_make_the_same_cluster_end_with_one(
    sim: Simulator, tmp_path: Path, number: int
) -> None:
    before = len(sim.history()["instances"])
    with sim.hollow_hosts(), racers(sim, tmp_path, number) as running:
        told = [
            json.loads(racer.stdout.readline()) for racer in running if racer.stdout is not None
        ]
        assert sorted(origin for origin, _ in told) == ["attached"] * (number - 1) + ["created"], (
            told
        )
        assert len({run for _, run in told}) == 1
        assert invariants.over_scaled(sim, "contested", at_most=1) == []
        born = list(sim.history()["instances"].values())[before:]
        assert sorted(row["tags"]["terradask:role"] for row in born) == ["scheduler", "worker"]
        # Whoever made it takes it along, when the guests have left.
        for _, racer in sorted(
            zip((origin == "created" for origin, _ in told), running, strict=True),
            key=lambda each: each[0],
        ):
            racer.communicate("\n", timeout=PROCESS_SECONDS)
            assert racer.returncode == 0
    assert invariants.left_behind(sim, "contested") == []


@pytest.mark.soak
@pytest.mark.parametrize("action", CALLS)
def test_a_making_that_is_refused_at_any_call_leaves_nothing_behind_a_sweep(
    sim: Simulator, policies: dict[str, list[dict[str, Any]]], action: str
) -> None:
    fewer = [minus_action(policy, action) for policy in policies["user"]]
    with sim.hollow_hosts(), sim.acting_as("hampered", *fewer), pytest.raises(TerradaskError):
        Cluster("hampered", n_workers=1)
    with sim.applied():
        Workspace.load().sweep(grace_seconds=1)
    assert invariants.left_behind(sim, "hampered") == []
    assert invariants.born_without_tags(sim, "hampered") == []


@pytest.mark.soak
@pytest.mark.parametrize("service", ["autoscaling", "ec2", "s3", "secretsmanager"])
def test_a_making_whose_answers_get_lost_succeeds_or_leaves_nothing_behind_a_sweep(
    sim: Simulator, service: str
) -> None:
    draws = drawn(f"lost answers of {service}")
    with sim.applied(), sim.hollow_hosts():
        with sim.drop_answers(
            f"{service}:*", share=draws.uniform(0.05, 0.3), seed=draws.randrange(1000)
        ):
            try:
                with (
                    Cluster("unlucky", n_workers=2, wait_for_workers=True) as cluster,
                    cluster.get_client() as client,
                ):
                    assert client.submit(sum, [1, 2]).result(HANG_SECONDS) == 3
            except TerradaskError as error:
                print(f"{type(error).__name__}: {error}")
        Workspace.load().sweep(grace_seconds=1)
    assert invariants.left_behind(sim, "unlucky") == []
    assert invariants.over_scaled(sim, "unlucky", at_most=2) == []


@pytest.mark.life
def test_a_cluster_is_made_again_at_once_though_aws_has_not_finished_with_the_first(
    sim: Simulator, sim_environ: dict[str, str]
) -> None:
    with sim.hollow_hosts(), unsettled(sim, drawn("again")):
        for _ in range(2):
            with Cluster(name="again", n_workers=1, show_widget=False) as cluster:
                cluster.wait_for_workers(1, HANG_SECONDS)
    assert invariants.left_behind(sim, "again") == []
