"""Processes of groups that are suspended: the reasons that AWS gives, and its own suspensions.

moto gives no reason, and suspends nothing by itself.
"""

from __future__ import annotations

import datetime
from typing import Any

from terradask_simulator.aws.backend import BELL, now_text
from terradask_simulator.aws.fidelity.clock import now
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install", "note_launches"]

#: AWS (documented): a group that tried for over 24 hours to launch instances, without launching
#: any, is suspended by AWS. https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
_FAILED_FOR = datetime.timedelta(hours=24)

#: AWS (recorded): the reason of a suspension by a caller begins with these words.
#: https://github.com/cloud-custodian/cloud-custodian/tree/df800e9e94/tests/data/placebo/test_asg_suspend
_BY_CALLER = "User suspended at"
#: AWS (believed): the reason of AWS's own suspensions has other words, and it suspends ``Launch``.
_BY_AWS = "AdministrativeSuspension at"


def note_launches(group: Any, *, failed: bool, empty: bool) -> None:
    """Note the outcome of a group's launches; suspend an empty group that failed for a day."""
    since = group.__dict__.get("_embedded_failing_since")
    if not failed or not empty:
        group._embedded_failing_since = None
    elif since is None:
        group._embedded_failing_since = now()
    elif now() - since > _FAILED_FOR:
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
