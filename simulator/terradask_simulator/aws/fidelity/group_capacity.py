"""Groups launch and terminate instances by their capacity, policies and subnets.

moto launches the template's type instead of an override's, on demand regardless of the policy, all
in the first subnet, during the request that changed the capacity; it doesn't resume scale-in when
protection is removed, doesn't replace unhealthy instances, gives no reason for a suspended process,
and suspends nothing by itself.
"""

from __future__ import annotations

import datetime
import logging
import time
from typing import Any

from terradask_simulator.aws.backend import BELL, now_text
from terradask_simulator.aws.fidelity.clock import now as aws_now
from terradask_simulator.aws.fidelity.group_activities import (
    TERMINATING,
    end_members,
    finish,
    forget_ended,
)
from terradask_simulator.aws.fidelity.group_launches import back_off, fill, launch
from terradask_simulator.aws.fidelity.group_pools import has_capacity
from terradask_simulator.aws.fidelity.group_zones import (
    JOINING,
    imbalance,
    members,
    scale_in_candidates,
)
from terradask_simulator.aws.fidelity.lifecycle_hooks import ABANDON, hold
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.warm_pools import draw, keep_pool

__all__ = ["install", "maintain", "maintain_all"]

_log = logging.getLogger(__name__)

_ALIVE = ("pending", "running")

#: Instances launched or terminated for one group before other calls are served.
BATCH = 100

#: How long a group must be at its capacity before its zones are balanced, and after a failure; AWS
#: publishes no figures.
_SETTLED_SECONDS, _FAILED_SECONDS = 1.0, 60.0

#: AWS (documented): a group that tried for over 24 hours to launch instances, without launching
#: any, is suspended by AWS. https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
_FAILED_FOR = datetime.timedelta(hours=24)

#: AWS (recorded): the reason of a suspension by a caller begins with these words.
#: https://github.com/cloud-custodian/cloud-custodian/tree/df800e9e94/tests/data/placebo/test_asg_suspend
_BY_CALLER = "User suspended at"
#: AWS (believed): the reason of AWS's own suspensions has other words, and it suspends ``Launch``.
_BY_AWS = "AdministrativeSuspension at"


def maintain_all(backend: Any) -> bool:
    """Bring every group of a region closer to its capacity; return whether another pass is due at
    once.
    """
    more = False
    for group in list(backend.autoscaling_groups.values()):
        try:
            more = maintain(group) or more
        except Exception:  # noqa: BLE001  (one group must not stop the others)
            _log.warning("group %s can't be maintained", group.name, exc_info=True)
    return more


def maintain(group: Any) -> bool:
    """Bring one group closer to its capacity: remove terminated members, replace unhealthy ones,
    launch or terminate a batch, balance the zones; and its warm pool to its size.
    """
    suspended = set(group._suspended_processes)
    more = _reach_capacity(group, suspended)
    keep_pool(group, suspended)
    return more


def _reach_capacity(group: Any, suspended: set[str]) -> bool:
    forget_ended(group)
    _take_into_service(group)
    if "HealthCheck" not in suspended:
        _remove_terminated(group)
    if not suspended & {"ReplaceUnhealthy", "Terminate"}:
        _end_unhealthy(group)
    missing = group.desired_capacity - len(members(group))
    if missing:
        group._embedded_settled_at = None
    if (
        missing > 0
        and "Launch" not in suspended
        and time.monotonic() >= getattr(group, "_embedded_retry_at", 0.0)
    ):
        wanted = min(missing, BATCH) - draw(group, min(missing, BATCH))
        launched = not wanted or launch(group, wanted)
        _note_launches(group, failed=not launched, empty=not members(group))
        return launched and missing > BATCH
    if missing <= 0:
        _note_launches(group, failed=False, empty=False)
    if missing < 0 and "Terminate" not in suspended:
        return _scale_in(group, min(-missing, BATCH)) and -missing > BATCH
    if not missing and not suspended & {"AZRebalance", "Launch", "Terminate"}:
        _rebalance(group)
    return False


def _take_into_service(group: Any) -> None:
    abandoned = []
    for state in group.instance_states:
        if state.lifecycle_state not in JOINING or state.instance.state != "running":
            continue
        result = hold(group, state)
        if result is None:
            state.lifecycle_state = "Pending:Wait"
        elif result == ABANDON:
            abandoned.append(state)
        else:
            state.lifecycle_state = "InService"
            finish(state.instance)
    if abandoned:
        cause = f"At {now_text()} an instance was abandoned by a lifecycle action."
        end_members(group, abandoned, cause)
        back_off(group)


def _remove_terminated(group: Any) -> None:
    dead = [
        state
        for state in group.instance_states
        if state.lifecycle_state != TERMINATING and state.instance.state not in _ALIVE
    ]
    for state in dead:
        if state.lifecycle_state in JOINING:
            back_off(group)
        end_members(
            group,
            [state],
            f"At {now_text()} an instance was taken out of service in response to an EC2 health "
            "check indicating it has been terminated or stopped.",
            reason=state.instance.state_reason.message,
        )


def _end_unhealthy(group: Any) -> None:
    end_members(
        group,
        [state for state in group.active_instances() if state.health_status == "Unhealthy"],
        f"At {now_text()} an instance was taken out of service in response to a user health-check.",
    )


def _scale_in(group: Any, count: int) -> bool:
    victims = scale_in_candidates(group, count)
    if victims:
        _end(group, victims, getattr(group, "_embedded_cause", ""))
    return bool(victims)


def _end(group: Any, victims: list[Any], why: str) -> None:
    before = len(members(group))
    end_members(
        group,
        victims,
        f"{why}  At {now_text()} an instance was taken out of service in response to a difference "
        "between desired and actual capacity, "
        f"shrinking the capacity from {before} to {before - len(victims)}.".strip(),
    )


def _rebalance(group: Any) -> None:
    """Move an instance to a zone that has too few: launch there, then terminate one in the fullest
    zone.
    """
    now = time.monotonic()
    settled_at = getattr(group, "_embedded_settled_at", None)
    if settled_at is None:
        group._embedded_settled_at = now
        return
    if now - settled_at < _SETTLED_SECONDS or group.ec2_launch_template is None:
        return
    found = imbalance(group)
    if found is None:
        return
    victim, places = found
    market = victim.instance.lifecycle or "on-demand"
    place = next((one for one in places if has_capacity(group, one, market)), None)
    if place is None:
        return
    # The text: https://github.com/awslabs/benchmark-ai/issues/71
    why = (
        f"At {now_text()} instances were launched to balance instances in zones {place.zone} with "
        "other zones resulting in more than desired number of instances in the group."
    )
    if fill(group, place, market, 1, why):
        _end(group, [victim], why)
        group._embedded_settled_at = None
    else:
        group._embedded_settled_at = now + _FAILED_SECONDS


def _note_launches(group: Any, *, failed: bool, empty: bool) -> None:
    """Note the outcome of a group's launches; suspend an empty group that failed for a day."""
    since = group.__dict__.get("_embedded_failing_since")
    if not failed or not empty:
        group._embedded_failing_since = None
    elif since is None:
        group._embedded_failing_since = aws_now()
    elif aws_now() - since > _FAILED_FOR:
        _reasons(group)["Launch"] = f"{_BY_AWS} {now_text()}"
        group._suspended_processes = sorted({*group._suspended_processes, "Launch"})
        group._embedded_failing_since = None


def _reasons(group: Any) -> dict[str, str]:
    return group.__dict__.setdefault("_embedded_suspensions", {})


def install() -> None:
    """Make descriptions give reasons."""
    from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup

    def described(group: Any) -> list[dict[str, str]]:
        reasons = _reasons(group)
        return [
            {"ProcessName": one, "SuspensionReason": reasons.get(one, "")}
            for one in group._suspended_processes
        ]

    def changed(group: Any, processes: list[str]) -> None:
        reasons = _reasons(group)
        for process in reasons.keys() - set(processes):
            del reasons[process]
        for process in processes:
            reasons.setdefault(process, f"{_BY_CALLER} {now_text()}")
        group._suspended_processes = processes

    FakeAutoScalingGroup.suspended_processes = property(described, changed)

    @around(AutoScalingBackend, "resume_processes")
    def resume_processes(resume: Any, backend: Any, *args: Any, **kwargs: Any) -> None:
        resume(backend, *args, **kwargs)
        BELL.set()
