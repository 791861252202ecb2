"""Lifecycle hooks for launches: instances wait until a caller completes the action, or its time is
over. Hooks for terminations are refused.

moto keeps hooks, but nothing waits for them, and it has no call that completes an action.

AWS (documented, hook-abandon): An instance whose launching hook ends with ABANDON is terminated and
replaced; if hooks fail consistently, Auto Scaling limits the rate of launches.
https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from terradask_simulator.aws.backend import BELL
from terradask_simulator.aws.fidelity.clock import now
from terradask_simulator.aws.fidelity.descriptions import describe
from terradask_simulator.aws.fidelity.group_numbers import error, group_of
from terradask_simulator.aws.fidelity.group_zones import members, warmed
from terradask_simulator.aws.fidelity.patching import add

__all__ = ["ABANDON", "hold", "install", "launching_hooks"]

ABANDON = "ABANDON"
_LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
_RESULTS = ("CONTINUE", ABANDON)

# AWS (documented): A hook's timeout is 30 to 7200 seconds; an instance waits for at most 48 hours,
# or 100 times the timeout. https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutLifecycleHook.html
_TIMEOUTS = range(30, 7201)
_LONGEST = datetime.timedelta(hours=48)


@dataclass
class _Action:
    """An instance's wait for one hook."""

    hook: Any
    instance_id: str
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    began: datetime.datetime = field(default_factory=now)
    result: str | None = None

    def __post_init__(self) -> None:
        self.until = self.began
        self.prolong()

    def prolong(self) -> None:
        """Give it the hook's time once more, up to the longest."""
        timeout = datetime.timedelta(seconds=self.hook.heartbeat_timeout)
        self.until = min(now() + timeout, self.began + min(_LONGEST, 100 * timeout))

    def settle(self) -> str | None:
        """Return its result, after its time the hook's default; None while it waits."""
        if self.result is None and now() >= self.until:
            self.result = self.hook.default_result
        return self.result


def launching_hooks(group: Any) -> list[Any]:
    """Return a group's hooks for launches."""
    hooks = group.autoscaling_backend.describe_lifecycle_hooks(group.name)
    return [hook for hook in hooks if hook.lifecycle_transition == _LAUNCHING]


def hold(group: Any, state: Any) -> str | None:
    """Let a launched instance wait for its group's hooks: return None while it waits, then the
    result.
    """
    actions = state.__dict__.setdefault(
        "_embedded_actions", [_Action(hook, state.instance.id) for hook in launching_hooks(group)]
    )
    results = [action.settle() for action in actions]
    if ABANDON not in results and None in results:
        return None
    # Leaving the pool, it waits again.
    del state._embedded_actions
    return ABANDON if ABANDON in results else "CONTINUE"


def install() -> None:
    """Make hooks act, and describe them without a role and a target, which no hook here has."""
    from moto.autoscaling.models import LifecycleHook
    from moto.autoscaling.responses import AutoScalingResponse

    describe(
        LifecycleHook,
        GlobalTimeout=lambda hook: min(100 * hook.heartbeat_timeout, 172800),
        NotificationTargetARN=None,
        RoleARN=None,
    )
    add(
        AutoScalingResponse,
        put_lifecycle_hook,
        describe_lifecycle_hooks,
        complete_lifecycle_action,
        record_lifecycle_action_heartbeat,
    )


def put_lifecycle_hook(response: Any) -> None:
    """Answer PutLifecycleHook."""
    backend = response.autoscaling_backend
    name = response._get_param("LifecycleHookName")
    group = group_of(response, to_change=True)
    before = next(iter(backend.describe_lifecycle_hooks(group.name, [name])), None)
    transition = response._get_param("LifecycleTransition") or getattr(
        before, "lifecycle_transition", None
    )
    timeout = response._get_int_param("HeartbeatTimeout") or getattr(
        before, "heartbeat_timeout", 3600
    )
    result = response._get_param("DefaultResult") or getattr(before, "default_result", ABANDON)
    if transition != _LAUNCHING:
        raise error(
            "The embedded AWS has lifecycle hooks for launches alone: give "
            f"{_LAUNCHING}, or try this on AWS"
        )
    if timeout not in _TIMEOUTS:
        raise error(f"HeartbeatTimeout must be between {_TIMEOUTS[0]} and {_TIMEOUTS[-1]} seconds")
    _check_result(result)
    backend.create_lifecycle_hook(name, group.name, transition, timeout, result)


def describe_lifecycle_hooks(response: Any) -> dict[str, Any]:
    """Answer DescribeLifecycleHooks."""
    hooks = response.autoscaling_backend.describe_lifecycle_hooks(
        group_of(response).name, response._get_param("LifecycleHookNames", [])
    )
    return {"LifecycleHooks": hooks}


def complete_lifecycle_action(response: Any) -> None:
    """Answer CompleteLifecycleAction."""
    result = response._get_param("LifecycleActionResult")
    _check_result(result)
    _open_action(response).result = result
    BELL.set()


def record_lifecycle_action_heartbeat(response: Any) -> None:
    """Answer RecordLifecycleActionHeartbeat."""
    _open_action(response).prolong()


def _check_result(result: str) -> None:
    if result not in _RESULTS:
        raise error(f"Lifecycle action result must be one of {', '.join(_RESULTS)}: {result}")


def _open_action(response: Any) -> _Action:
    group = group_of(response)
    name = response._get_param("LifecycleHookName")
    instance_id = response._get_param("InstanceId")
    token = response._get_param("LifecycleActionToken")
    for action in _actions([*members(group), *warmed(group)]):
        named = action.token == token if token else action.instance_id == instance_id
        if named and action.hook.name == name and action.settle() is None:
            return action
    # https://github.com/convox/rack/issues/2432,
    # https://github.com/spacelift-io/terraform-aws-spacelift-workerpool-on-ec2/pull/197
    which = f"token {token}" if token else f"instance ID {instance_id}"
    raise error(f"No active Lifecycle Action found with {which}")


def _actions(states: Iterable[Any]) -> Iterator[_Action]:
    for state in states:
        yield from state.__dict__.get("_embedded_actions", ())
