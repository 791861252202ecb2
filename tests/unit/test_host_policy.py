"""Decisions of a host: pure functions, one table each."""

from __future__ import annotations

import itertools
import random
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from terradask._software.client_versions import BASE
from terradask_host import states
from terradask_host.agent.host import check_imported
from terradask_host.agent.retry import backoff
from terradask_host.documents import Ended, SchedulerAddress
from terradask_host.errors import DistributedTooOld, HostError
from terradask_host.rules.policy import (
    LEAST_DISTRIBUTED,
    Exit,
    Next,
    Seek,
    after_scheduler_exit,
    after_worker_exit,
    is_own_run,
    is_too_old,
    next_boot,
    seek,
    seek_pause_seconds,
    version_differences,
    worker_memory_limit_bytes,
)
from terradask_host.timing import Timing

from .host_facts import run_document

TIMING = Timing()
IDLE = Ended("2026-11-20T05:15:00Z", "idle")


def address(run_id: str, boot: int, ended: Ended | None = None) -> SchedulerAddress:
    return SchedulerAddress(
        run_id, "i-1", boot, "tls://10.64.0.5:8786", None, 8787, "3.12", {}, ended
    )


GIB = 2**30


@pytest.mark.parametrize(
    ("tag", "run", "waited", "expected"),
    [
        ("r2", "r2", 0, True),
        ("r2", "r1", 0, False),
        ("r2", "r1", 10_000, False),
        ("r2", None, 10_000, False),
        (None, None, 10_000, False),
        # The tag may lag: for a while its absence says nothing.
        (None, "r1", 9.9, False),
        (None, "r1", 10.0, True),
    ],
)
def test_is_own_run(tag: str | None, run: str | None, waited: float, expected: bool) -> None:
    assert is_own_run(tag, run, waited, TIMING) is expected


@pytest.mark.parametrize(
    ("end", "crashes", "answers", "expected"),
    [
        (Exit(0, "scheduler-close-worker", ran=True), 0, True, Next.RETIRED),
        (Exit(0, "scheduler-remove-worker", ran=True), 0, True, Next.RETIRED),
        (Exit(0, None, ran=True), 0, True, Next.RETIRED),
        (Exit(0, "worker-handle-scheduler-connection-broken", ran=True), 0, True, Next.SEEK),
        (Exit(0, "scheduler-close", ran=True), 0, True, Next.SEEK),
        (Exit(0, "worker-heartbeat-missing", ran=True), 0, True, Next.SEEK_LATER),
        # It could not start since the scheduler is not there: that is no crash, however often.
        (Exit(1, "OSError: no answer"), 99, False, Next.SEEK),
        (Exit(1, "TypeError: no such option"), 0, True, Next.RESTART),
        (Exit(-9, None, ran=True), 2, True, Next.RESTART),
        (Exit(-9, None, ran=True), 3, True, Next.FAIL),
    ],
)
def test_after_worker_exit(end: Exit, crashes: int, answers: bool, expected: Next) -> None:
    assert (
        after_worker_exit(end, crashes=crashes, scheduler_answers=answers, timing=TIMING)
        is expected
    )


@pytest.mark.parametrize(
    ("end", "crashes", "expected"),
    [
        (Exit(0, "idle-timeout-exceeded", ran=True), 0, Next.OVER),
        (Exit(1, "OSError: address in use"), 0, Next.RESTART),
        (Exit(-11, None, ran=True), 3, Next.FAIL),
    ],
)
def test_after_scheduler_exit(end: Exit, crashes: int, expected: Next) -> None:
    assert after_scheduler_exit(end, crashes=crashes, timing=TIMING) is expected


@pytest.mark.parametrize(
    ("document", "lost", "answers", "silent", "expected"),
    [
        (address("r", 1), None, False, 0, Seek.JOIN),
        (address("older", 1), None, False, 0, Seek.WAIT),
        (None, None, False, 899, Seek.WAIT),
        (None, None, False, 900, Seek.LEAVE),
        (address("older", 7), None, False, 900, Seek.LEAVE),
        (address("r", 1), 1, False, 599, Seek.WAIT),
        (address("r", 1), 1, False, 600, Seek.LEAVE),
        # The connection was cut, and the same scheduler answers again.
        (address("r", 1), 1, True, 30, Seek.JOIN),
        # The cluster has ended by itself: no other will come.
        (address("r", 1, IDLE), 1, True, 0, Seek.LEAVE),
        (address("r", 1, IDLE), None, False, 0, Seek.LEAVE),
        (address("older", 1, IDLE), None, False, 0, Seek.WAIT),
        # A new one came up; even at the last moment it is joined, not left.
        (address("r", 2), 1, False, 600, Seek.JOIN),
        # What answers at the old address is not asked when the document is another run's.
        (address("newer", 1), 1, True, 30, Seek.WAIT),
    ],
)
def test_seek(
    document: SchedulerAddress | None,
    lost: int | None,
    answers: bool,
    silent: float,
    expected: Seek,
) -> None:
    decided = seek(
        document,
        run_id="r",
        lost_boot=lost,
        lost_boot_answers=answers,
        silent_seconds=silent,
        timing=TIMING,
    )
    assert decided is expected


def test_seeking_grows_patient() -> None:
    pauses = [seek_pause_seconds(waited) for waited in (0, 5, 30, 119, 120, 600)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0.25
    assert pauses[-1] == 5.0


def test_boots_count_up_within_a_run() -> None:
    assert next_boot(None, "r") == 1
    assert next_boot(address("older", 5), "r") == 1
    assert next_boot(address("r", 5), "r") == 6


def test_only_differences_that_matter_are_differences() -> None:
    own = {
        "python": "3.11",
        "packages": {"dask": "2026.8.0", "distributed": "2026.8.0", "numpy": "1"},
    }
    assert version_differences(own, own | {"packages": own["packages"] | {"numpy": "2"}}) == {}
    assert version_differences(own, own | {"python": "3.11.9"}) == {}
    assert version_differences(own, {"python": "3.12", "packages": {"dask": "2026.8.0"}}) == {
        "python": ("3.11", "3.12"),
        "distributed": ("2026.8.0", None),
    }


@pytest.mark.parametrize(
    ("machine", "worker"),
    [(GIB // 4, GIB // 8), (GIB, GIB - 256 * 2**20), (16 * GIB, 16 * GIB - 16 * GIB * 3 // 100)],
)
def test_a_worker_leaves_memory_to_the_machine(machine: int, worker: int) -> None:
    assert worker_memory_limit_bytes(machine) == worker


def test_backoff_grows_to_its_ceiling_and_varies() -> None:
    still = list(itertools.islice(backoff(1.0, ceiling_seconds=5.0, jitter=0.0), 5))
    assert still == [1.0, 2.0, 4.0, 5.0, 5.0]
    varied = list(itertools.islice(backoff(1.0, ceiling_seconds=5.0, rng=random.Random(1)), 50))
    assert len({round(pause, 6) for pause in varied[3:]}) > 40
    assert all(4.0 <= pause <= 6.0 for pause in varied[3:])


def test_every_state_is_reachable_and_only_the_ends_are_final() -> None:
    reached, edge = {states.BOOTING}, {states.BOOTING}
    while edge:
        edge = {after for before in edge for after in states.TRANSITIONS[before]} - reached
        reached |= edge
    assert reached == set(states.TRANSITIONS)
    assert {state for state, after in states.TRANSITIONS.items() if not after} == {
        states.LEFT,
        states.FAILED,
    }
    living = set(states.TRANSITIONS) - {states.LEFT, states.FAILED}
    assert all(states.FAILED in states.TRANSITIONS[state] for state in living)


def test_illegal_transitions_are_refused() -> None:
    states.check_transition(None, states.BOOTING)
    with pytest.raises(HostError, match=r"from None to running"):
        states.check_transition(None, states.RUNNING)
    with pytest.raises(HostError, match=r"it is final"):
        states.check_transition(states.LEFT, states.BOOTING)


def test_an_exit_describes_itself() -> None:
    assert Exit(-9).describe() == "signal 9"
    assert Exit(1, "TypeError: x").describe() == "exit code 1: TypeError: x"
    assert (
        Exit(1, last_line="No module named 'distributed'").describe()
        == "exit code 1: No module named 'distributed'"
    )
    assert Exit(-9, ran=True, last_line="task 7 has begun").describe() == "signal 9"


@pytest.mark.parametrize(
    ("version", "too_old"),
    [
        ("2026.1.1", False),
        ("2026.8.0", False),
        ("2027.0.0", False),
        ("2026.1.1+12.gabc", False),
        ("2026.1.0", True),
        ("2026.1", True),
        ("2025.12.9", True),
        ("0+unknown", True),
        ("", True),
        (None, True),
    ],
)
def test_a_distributed_with_known_holes_is_too_old(version: str | None, too_old: bool) -> None:
    assert is_too_old(version) is too_old


def test_hosts_clients_and_the_lock_of_software_have_one_floor() -> None:
    (wanted,) = [
        Requirement(each)
        for each in metadata.requires("terradask") or ()
        if Requirement(each).name == "distributed"
    ]
    assert f"distributed{wanted.specifier}" == f"distributed>={LEAST_DISTRIBUTED}"
    assert f"distributed>={LEAST_DISTRIBUTED}" in BASE


def test_an_old_distributed_is_refused_by_name() -> None:
    with pytest.raises(DistributedTooOld, match=r"distributed 2025\.1\.0") as caught:
        check_imported({"packages": {"distributed": "2025.1.0"}}, run_document())
    assert LEAST_DISTRIBUTED in str(caught.value.allowed)
    check_imported({"packages": {"distributed": LEAST_DISTRIBUTED}}, run_document())
