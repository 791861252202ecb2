"""Removes what a failed test leaves on the embedded AWS that all tests of a process share, before
the next test begins, which would fail because of it too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask.errors import TerradaskError
from terradask_simulator import Simulator
from terradask_simulator.process import request_control

from .waiting import eventually

__all__ = [
    "SHARED",
    "pytest_fixture_setup",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "remove_left",
    "take",
]

#: The embedded AWS of this process, once there is one.
SHARED = pytest.StashKey[Simulator]()

_SEEN = pytest.StashKey["_Seen"]()
#: In which part a test has failed, first: setup, call or teardown.
_FAILED = pytest.StashKey[str]()

#: Auto Scaling groups and running instances of no group, by name and id, with the groups' tags.
Found = dict[str, dict[str, Any]]


@dataclass
class _Seen:
    """What there was: before the first test of a file, and before the test that runs, with what
    fixtures for several tests have made.
    """

    path: Path
    before_file: Found
    before_test: Found


def take(simulator: Simulator) -> Found:
    """Return what is there."""
    # Instances first: else one that joins its group meanwhile would be of none.
    instances = request_control(simulator.info, "GET", "instances")
    groups = request_control(simulator.info, "GET", "groups")
    members = {instance for group in groups for instance in group["instances"]}
    lone: Found = {one: {} for one in instances if one not in members}
    return lone | {one["name"]: one["tags"] for one in groups}


def remove_left(simulator: Simulator, before: Found) -> list[str]:
    """Remove what wasn't there before; return what it was, and what could not be removed."""
    left = {name: tags for name, tags in take(simulator).items() if name not in before}
    clusters = {
        tags.get("terradask:cluster")
        for tags in left.values()
        if tags.get("terradask:workspace") == "default"
    }
    said = sorted(f"left and removed: {name}" for name in left)
    with simulator.applied():
        workspace = Workspace.load()
        for cluster in sorted({*filter(None, clusters), *workspace.unfinished()}):
            try:
                workspace.destroy_cluster(cluster)
                said.append(f"left and destroyed: cluster {cluster}")
            except TerradaskError as error:
                said.append(f"cluster {cluster} could not be destroyed: {error}")
    _end(simulator, left)
    return said


def _end(simulator: Simulator, left: Found) -> None:
    """Delete groups and end instances that are still there, and wait until they are gone."""
    there = take(simulator).keys() & left.keys()
    instances = [name for name in there if name.startswith("i-")]
    with (
        contextlib.closing(simulator.client("autoscaling")) as autoscaling,
        contextlib.closing(simulator.client("ec2")) as ec2,
    ):
        for name in there - set(instances):
            autoscaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
        if instances:
            ec2.terminate_instances(InstanceIds=instances)
    eventually(lambda: not take(simulator).keys() & left.keys())


def _uses(item: pytest.Item) -> bool:
    """Return whether a test uses the shared embedded AWS: most don't, and needn't ask it."""
    return "sim" in getattr(item, "fixturenames", ())


def _look(config: pytest.Config) -> Found:
    return take(config.stash[SHARED]) if SHARED in config.stash else {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Note what there is before a test."""
    if _uses(item):
        found, seen = _look(item.config), item.config.stash.get(_SEEN, None)
        is_first = seen is None or seen.path != item.path
        before_file = found if is_first or seen is None else seen.before_file
        item.config.stash[_SEEN] = _Seen(item.path, before_file, found)
    yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note what there is when a fixture for several tests is there: that is none of the test's."""
    made = yield
    if fixturedef.scope != "function" and _SEEN in request.config.stash:
        request.config.stash[_SEEN].before_test = _look(request.config)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note that a test has failed."""
    report = yield
    if report.failed:
        item.stash.setdefault(_FAILED, report.when)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Remove what a failed test has left; its report says what that was."""
    try:
        yield
    except BaseException:
        item.stash.setdefault(_FAILED, "teardown")
        raise
    finally:
        if _FAILED in item.stash and _uses(item) and SHARED in item.config.stash:
            _remove_after(item, is_last=nextitem is None or nextitem.path != item.path)


def _remove_after(item: pytest.Item, *, is_last: bool) -> None:
    seen = item.config.stash[_SEEN]
    before = seen.before_file if is_last else seen.before_test
    try:
        said = remove_left(item.config.stash[SHARED], before)
    except Exception as error:  # noqa: BLE001 - the test's own failure is what counts
        said = [f"what was left could not be removed: {error!r}"]
    item.add_report_section("teardown", "on the embedded AWS in", "\n".join(said))
    # pytest shows that of a test that ran, and nothing of the end of one that didn't begin.
    if said and item.stash[_FAILED] == "setup":
        pytest.fail("\n".join(said), pytrace=False)
