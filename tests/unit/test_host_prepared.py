"""A host that AWS keeps for later: it installs, lets AWS go on, and ends only when stopped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask_host import states
from terradask_host.agent.agent import Agent
from terradask_host.agent.event_queue import EventQueue, Stop
from terradask_host.agent.launch_hook import LaunchHook
from terradask_host.agent.report import Reporter
from terradask_host.config import Paths
from terradask_host.documents import PREPARED
from terradask_host.metadata import Identity
from terradask_host.timing import Timing

GROUP = "terradask-default-etl-workers"
ME = "i-0a1b2c3d"
NONE_WAITS = ClientError(
    {"Error": {"Code": "ValidationError", "Message": "No active Lifecycle Action found"}},
    "CompleteLifecycleAction",
)


class _Autoscaling:
    """Refuses so many times; `then` is called once it agrees."""

    def __init__(self, refusals: int = 0, then: Any = lambda: None) -> None:
        self.refusals, self.then = refusals, then
        self.calls: list[dict[str, Any]] = []

    def client(self, service: str) -> _Autoscaling:
        assert service == "autoscaling"
        return self

    def complete_lifecycle_action(self, **arguments: Any) -> None:
        self.calls.append(arguments)
        if len(self.calls) <= self.refusals:
            raise NONE_WAITS
        self.then()


def hook(aws: Any, log: list[str]) -> LaunchHook:
    metadata: Any = SimpleNamespace(warm_pool=lambda: GROUP)
    found = LaunchHook.of_instance(metadata, aws, ME, log=log.append)
    assert found is not None
    return found


def test_a_group_without_prepared_hosts_has_no_hook() -> None:
    metadata: Any = SimpleNamespace(warm_pool=lambda: None)
    aws: Any = None
    assert LaunchHook.of_instance(metadata, aws, ME, log=print) is None


def test_a_hook_is_completed_by_its_groups_name_and_a_refusal_is_logged() -> None:
    aws, log = _Autoscaling(refusals=1), list[str]()
    found = hook(aws, log)
    assert not found.complete()
    assert "No active Lifecycle Action" in log[0]
    assert found.complete()
    assert aws.calls[1] == {
        "AutoScalingGroupName": GROUP,
        "LifecycleHookName": GROUP,
        "InstanceId": ME,
        "LifecycleActionResult": "CONTINUE",
    }


def test_an_error_of_no_service_is_no_refusal() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hook(_Autoscaling(then=fail), []).complete()


@pytest.mark.parametrize("trouble", [None, ValueError("no such package")])
def test_a_host_is_prepared_and_waits_until_aws_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception | None
) -> None:
    """Also one that can't install everything: a machine that powers off would be replaced."""
    events, log, reports = EventQueue(), list[str](), list[dict[str, Any]]()
    paths = Paths(tmp_path)
    config: Any = SimpleNamespace(
        timing=Timing(hook_retry_seconds=0.01),
        metadata_endpoint="http://127.0.0.1:1",
        region="eu-west-1",
        paths=paths,
    )
    texts: Any = SimpleNamespace(info=log.append, error=log.append)
    agent = Agent(config, texts, events)
    identity = Identity(ME, "worker", "etl", "workers", "10.0.0.9", None, "m6i.large")
    reporter = Reporter(reports.append, identity, tail=list, warn=log.append)
    ready = []

    def install(*_: Any) -> None:
        ready.append(reporter.state)
        if trouble is not None:
            raise trouble

    def stopped() -> None:
        # Before AWS stops it, all is on the disk.
        assert paths.prepared.read_text() == ME
        assert reporter.state == states.LEFT
        events.put(Stop("asked to stop by SIGTERM"))

    monkeypatch.setattr(agent, "_install", install)
    aws = _Autoscaling(refusals=2, then=stopped)
    objects: Any = None
    assert agent._prepare(identity, objects, reporter, hook(aws, log)) == 0
    reporter.close()
    assert ready == [states.PREPARING]
    assert len(aws.calls) == 3
    assert (reports[-1]["state"], reports[-1]["reason"]) == ("left", PREPARED)
    notes = [note[2:] for note in reports[-1]["notes"]]
    assert notes == ([] if trouble is None else [("unprepared", f"{ME}: no such package")])


def test_a_host_that_is_stopped_while_it_is_prepared_installs_the_rest_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = EventQueue()
    config: Any = SimpleNamespace(
        timing=Timing(),
        metadata_endpoint="http://127.0.0.1:1",
        region="eu-west-1",
        paths=Paths(tmp_path),
    )
    texts: Any = SimpleNamespace(info=print, error=print)
    agent = Agent(config, texts, events)
    identity = Identity(ME, "worker", "etl", "workers", "10.0.0.9", None, "m6i.large")
    reporter = Reporter(lambda _: None, identity, tail=list, warn=print)

    def install(*_: Any) -> None:
        events.put(Stop("asked to stop by SIGTERM"))
        events.pause(10.0)

    monkeypatch.setattr(agent, "_install", install)
    aws, objects = _Autoscaling(), None
    assert agent._prepare(identity, objects, reporter, hook(aws, [])) == 0  # type: ignore[arg-type]
    reporter.close()
    assert (reporter.state, aws.calls) == (states.LEFT, [])
    # Its tags may be of an earlier run when it is started.
    assert config.paths.prepared.read_text() == ME
