"""Faults of AWS, of the network and of hosts at drawn points, on one cluster; the invariants are
asserted after each (tests/faults.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from terradask import Cluster
from terradask._aws import s3
from terradask.errors import (
    ClusterError,
    NoCredentials,
    SchedulerReplaced,
    SchedulerUnreachable,
)
from terradask_simulator import Simulator

from .. import invariants
from ..seeds import drawn
from ..waiting import HANG_SECONDS, PROCESS_SECONDS, eventually
from .left_alone import WAVE_TASKS
from .left_jobs import JOB_TASKS
from .soaking import MOST, TIMING, Soak

pytestmark = [pytest.mark.simulator]

#: Three hosts in a row that don't join, and their group launches no more.
FAILURES = 3
JOIN_SECONDS = 12.0
JOIN_LOOK_SECONDS = 5.0

#: Longer than it takes to scale again.
LINGER_SECONDS = 20.0

#: Longer than any session of tests.
YOUNG_SECONDS = 1e6

#: Two steps are a minute of a cluster's life.
SHORT_STEPS = 6

#: Calls whose answers may get lost while a cluster is scaled.
SCALING_CALLS = (
    "autoscaling:SetDesiredCapacity",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
    "autoscaling:DescribeAutoScalingGroups",
)


@pytest.fixture(scope="module")
def made(
    sim: Simulator, sim_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Soak]:
    timing = {
        **TIMING,
        "join_seconds": JOIN_SECONDS,
        "join_failures": FAILURES,
        # Hosts look each minute. At half seconds they would take all that a throttling AWS lets
        # through.
        "join_poll_seconds": JOIN_LOOK_SECONDS,
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        sim.hollow_hosts(),
        sim.time_hosts(**timing),
        sim.hide_objects(0.0),
        Soak(
            sim, "faulty", drawn("faults"), tmp_path_factory.mktemp("faulty"), gentle=True
        ) as made,
        sim.linger_terminating(LINGER_SECONDS),
    ):
        # As in a workspace's first minutes, until the cluster is closed, however old the bucket is.
        # Before, the provider looks once for each object that it makes.
        patch.setattr(s3, "_YOUNG_SECONDS", YOUNG_SECONDS)
        sim.hide_objects(0.2, seconds=YOUNG_SECONDS, seed=drawn("young").randrange(1000))
        yield made
        # To release its lock, Terraform reads it, and takes a hidden one for an error.
        sim.hide_objects(0.0)
    assert invariants.left_behind(sim, "faulty") == []


async def sent(cluster: Any) -> None:
    await cluster


@pytest.fixture
def faulty(made: Soak) -> Iterator[Soak]:
    made.target = 3
    made.cluster.scale(3)
    # There may be three already: the number has to be at AWS before another one is.
    made.cluster.sync(sent, made.cluster)
    made.settle()
    yield made
    made.hear()
    sim, name = made.simulator, made.name
    assert invariants.over_scaled(sim, name, at_most=MOST) == []
    assert invariants.born_without_tags(sim, name) == []
    unretired = invariants.removed_unretired(sim, name, made.witness, lost=made.faults.lost)
    if unretired:
        made.tell(time.time() - 60)
        print(*unretired, sep="\n")
    assert unretired == []
    assert invariants.unjoined(sim, name, made.witness.joined, seconds=JOIN_SECONDS + 20) == []


def scaled_to(faulty: Soak, n: int) -> None:
    faulty.target = n
    faulty.cluster.scale(n)
    faulty.settle()


def points(*every: object) -> list[object]:
    """One point, drawn when its test runs; under `make soak` all."""
    return [None, *(pytest.param(each, marks=pytest.mark.soak) for each in every)]


@pytest.mark.parametrize("action", points(*SCALING_CALLS))
def test_a_lost_answer_changes_no_number(faulty: Soak, action: str | None) -> None:
    action = action or faulty.draws.choice(SCALING_CALLS)
    for n in (5, 2, 4):
        with faulty.simulator.drop_answers(action, times=1):
            scaled_to(faulty, n)


def test_credentials_that_expire_cost_nothing_and_what_was_asked_is_done_with_new_ones(
    faulty: Soak, policies: dict[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = faulty.simulator
    with (
        sim.acting_as("temporary", *policies["user"]),
        monkeypatch.context() as environ,
        Cluster.from_name(faulty.name) as cluster,
        cluster.get_client() as client,
    ):
        begun = client.map(lambda n: n + 1, range(20), pure=False)
        sim.expire_credentials(os.environ["AWS_ACCESS_KEY_ID"])
        with pytest.raises(NoCredentials, match="aws sso login"):
            cluster.events()
        cluster.scale(4)
        assert client.gather(begun) == list(range(1, 21))
        assert client.submit(sum, [1, 2], pure=False).result(HANG_SECONDS) == 3
        assert len(cluster.requested) == 3
        renewed = sim.environ_of("temporary", *policies["user"])
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            environ.setenv(name, renewed[name])
        eventually(lambda: len(cluster.requested) == 4)
        assert cluster.events()
    faulty.target = 4
    faulty.settle()


@pytest.mark.parametrize("seconds", points(1, 4, 20, 60))
def test_hidden_instances_are_neither_launched_again_nor_forgotten(
    faulty: Soak, seconds: float | None
) -> None:
    seconds = seconds or faulty.draws.uniform(1.0, 4.0)
    with faulty.simulator.hide_instances(seconds, seed=faulty.draws.randrange(1000)):
        faulty.cluster.scale(6)
        eventually(lambda: len(faulty.faults.workers()) == 6)
        time.sleep(faulty.draws.uniform(0.0, 1.0))
        assert len(faulty.faults.workers()) == 6
        scaled_to(faulty, 2)


@pytest.mark.parametrize("share", points(0.3, 0.6))
def test_changes_that_meet_those_of_others_are_made_all_the_same(
    faulty: Soak, share: float | None
) -> None:
    share = share or faulty.draws.uniform(0.3, 0.6)
    with faulty.simulator.contend_groups(share, seed=faulty.draws.randrange(1000)):
        for n in (6, 2, 4):
            scaled_to(faulty, n)


@pytest.mark.parametrize("factor", points(0.2, 0.1)[1:])
def test_throttled_calls_are_at_most_twice_as_many(faulty: Soak, factor: float | None) -> None:
    def calls() -> tuple[Counter[str], float]:
        faulty.simulator.reset_calls()
        started = time.monotonic()
        for n in (6, 3):
            scaled_to(faulty, n)
        counted = faulty.simulator.calls(by="role")[""]
        groups = {name: count for name, count in counted.items() if name.startswith("autoscaling:")}
        return Counter(groups), time.monotonic() - started

    ideal, _ = calls()
    with faulty.simulator.throttle(factor or faulty.draws.uniform(0.1, 0.2)):
        throttled, seconds = calls()
    ended = "autoscaling:TerminateInstanceInAutoScalingGroup"
    looks = throttled[ended] - ideal[ended]
    # What takes longer is looked at more often: every two seconds while something is awaited, and
    # before an end is repeated.
    assert throttled.total() <= 2 * ideal.total() + seconds / 2 + looks


@pytest.mark.parametrize("there", points(4, 5))
def test_what_there_is_is_kept_and_the_rest_comes_with_capacity(
    faulty: Soak, there: int | None
) -> None:
    there = there or faulty.draws.randint(4, 5)
    others = len(faulty.simulator.running_instances()) - 3
    with faulty.simulator.no_capacity(beyond=others + there):
        faulty.cluster.scale(6)
        eventually(lambda: len(faulty.cluster.observed) == there)
        faulty.simulator.reset_calls()
        time.sleep(2.0)
        assert sum(faulty.simulator.calls(by="role").get("", {}).values()) < 10
        assert len(faulty.cluster.observed) == there
    faulty.target = 6
    faulty.settle()


@pytest.mark.parametrize("seconds", points(5, 30, 60))
def test_a_cut_network_ends_nothing(faulty: Soak, seconds: float | None) -> None:
    seconds = seconds or faulty.draws.uniform(0.5, 4.0)
    before = faulty.faults.workers()
    with faulty.simulator.cut_network(faulty.faults.scheduler_id(), seconds=seconds):
        time.sleep(seconds)

    def reachable() -> bool:
        try:
            # Changes nothing.
            faulty.cluster.scale_up(0)
        except SchedulerUnreachable:
            return False
        return True

    eventually(lambda: reachable() and faulty.cluster.observed == before)
    faulty.renew_client()
    assert faulty.client.submit(sum, [1, 2]).result(HANG_SECONDS) == 3
    assert faulty.faults.workers() == before

    def scales() -> bool:
        try:
            faulty.cluster.scale(4)
        except SchedulerUnreachable:
            return False
        return True

    # After a long cut its error may come a moment after the network does.
    eventually(scales)
    faulty.target = 4
    faulty.settle()


def test_a_dead_worker_is_replaced_once(faulty: Soak) -> None:
    faulty.work.append(([1], [faulty.client.submit(lambda n: n + 1, 1, pure=False)]))
    known = set(faulty.simulator.history()["instances"])
    faulty.kill()
    killed = len(faulty.faults.lost & known)
    faulty.settle()
    faulty.check()
    born = faulty.simulator.history()["instances"].keys() - known
    assert 1 <= len(born) <= killed


def test_a_client_that_slept_sees_what_was_replaced_meanwhile(faulty: Soak) -> None:
    faulty.work.append(([1], [faulty.client.submit(lambda n: n + 1, 1, pure=False)]))
    before = faulty.faults.workers()
    faulty.sleep()
    faulty.settle()
    faulty.check()
    assert faulty.cluster.observed != before
    assert faulty.client.submit(sum, [1, 2], pure=False).result(HANG_SECONDS) == 3


def test_a_group_that_somebody_else_has_resized_is_mirrored(faulty: Soak) -> None:
    autoscaling = faulty.simulator.client("autoscaling")
    autoscaling.set_desired_capacity(
        AutoScalingGroupName="terradask-default-faulty-workers", DesiredCapacity=5
    )
    autoscaling.close()
    faulty.target = 5
    faulty.settle()


@pytest.mark.life
def test_hosts_that_never_join_are_ended_and_their_group_is_given_up(faulty: Soak) -> None:
    before = faulty.faults.workers()
    with faulty.simulator.break_environments():
        faulty.cluster.scale(3 + FAILURES)
        eventually(
            lambda: any("stops launching" in str(event.reason) for event in faulty.cluster.events())
        )
        eventually(lambda: faulty.faults.workers() == before)
    faulty.target = 3
    faulty.settle()
    told = subprocess.run(
        [sys.executable, "-m", "terradask", "status", "faulty", "--events", "--json"],
        env=faulty.simulator.environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_SECONDS,
    )
    assert "without having joined" in json.dumps(json.loads(told.stdout))
    # Asking again is a new beginning.
    scaled_to(faulty, 4)


@pytest.mark.life
def test_a_short_soak(faulty: Soak) -> None:
    # A fifth of a second to two seconds: meanwhile AWS neither protects nor ends what is launched.
    with faulty.simulator.delay_launches(0.1, seed=faulty.draws.randrange(1000)):
        faulty.live(SHORT_STEPS)
        scaled_to(faulty, 3)
    faulty.check()
    assert faulty.checked >= SHORT_STEPS


@pytest.mark.life
def test_a_short_soak_with_nobody_attached(faulty: Soak) -> None:
    checked = faulty.checked
    with faulty.simulator.delay_launches(0.1, seed=faulty.draws.randrange(1000)):
        faulty.live_alone(SHORT_STEPS)
    assert faulty.checked == checked + SHORT_STEPS * WAVE_TASKS + JOB_TASKS


@pytest.mark.life
def test_a_dead_scheduler_is_told_within_a_minute_and_workers_join_its_replacement(
    faulty: Soak,
) -> None:
    faulty.hear()
    killed = faulty.faults.scheduler_id()
    faulty.faults.kill_host(killed)
    # AWS lists it for a while before it launches another.
    eventually(
        lambda: any(
            host.role == "scheduler" and host.cluster == faulty.name and host.instance_id != killed
            for host in faulty.simulator.hosts()
        )
    )
    started = time.monotonic()

    def told() -> bool:
        try:
            faulty.cluster.scale(3)
        except SchedulerReplaced:
            return True
        except ClusterError as error:
            print(error)
        return False

    eventually(told)
    assert time.monotonic() - started < 60
    before = faulty.faults.workers()
    faulty.attach_again()
    faulty.settle()
    assert faulty.cluster.observed == before
    assert faulty.client.submit(sum, [1, 2]).result(HANG_SECONDS) == 3
