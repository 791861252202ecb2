"""Show request ids of spot instances, and interrupt them with notice.

moto only marks spot instances.

AWS (documented): An interruption of a spot instance is announced in the instance's metadata, and
then the instance is terminated. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html,
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.backend import BELL
from terradask_simulator.aws.errors import SimulatorError
from terradask_simulator.aws.fidelity.clock import now as aws_now
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.instances import find_instance

__all__ = ["end_interrupted", "install", "interrupt", "mark", "notices_of", "recommend_rebalance"]

_REASON = "Server.SpotInstanceTermination"


@dataclass
class _Notices:
    """Notices of one spot instance in its metadata."""

    rebalance_at: datetime.datetime | None = None
    ends_at: datetime.datetime | None = None


#: By instance id: live instances with notices.
_NOTICES: dict[str, _Notices] = {}


def install() -> None:
    """Set the request's id in instances that RequestSpotInstances launches."""
    from moto.ec2.models.spot_requests import SpotInstanceRequest

    @around(SpotInstanceRequest, "launch_instance")
    def launch_instance(launch: Any, request: Any) -> Any:
        instance = launch(request)
        instance.spot_instance_request_id = request.id
        return instance


def mark(instance: Any) -> None:
    """Set a spot instance's fields that DescribeInstances shows."""
    from moto.ec2.utils import random_spot_request_id

    if instance.lifecycle == "spot":
        instance.spot_instance_request_id = random_spot_request_id()


def recommend_rebalance(instance_id: str) -> None:
    """Announce that an instance is at an elevated risk of interruption; call it with
    the lock held.
    """
    notices = _notices(instance_id)
    notices.rebalance_at = notices.rebalance_at or aws_now()


def interrupt(instance_id: str, notice_seconds: float) -> None:
    """Announce the interruption of a spot instance, and terminate it at the deadline; call it with
    the lock held.
    """
    recommend_rebalance(instance_id)
    notices = _notices(instance_id)
    notices.ends_at = aws_now() + datetime.timedelta(seconds=notice_seconds)
    BELL.set()


def end_interrupted() -> None:
    """Terminate the spot instances that are due; call it with the lock held."""
    from moto.ec2.models.instances import StateReason

    for instance_id, notices in list(_NOTICES.items()):
        instance = find_instance(instance_id)
        if instance is None or not instance.is_running():
            del _NOTICES[instance_id]
        elif notices.ends_at is not None and notices.ends_at <= aws_now():
            del _NOTICES[instance_id]
            instance.ec2_backend.terminate_instances([instance_id])
            instance._reason = _REASON
            instance.state_reason = StateReason(f"{_REASON}: Spot instance termination", _REASON)
            BELL.set()


def notices_of(instance_id: str) -> dict[str, str]:
    """Return the metadata documents of notices, by path below ``meta-data/``; empty without
    notices.
    """
    documents: dict[str, str] = {}
    notices = _NOTICES.get(instance_id, _Notices())
    if notices.rebalance_at is not None:
        documents["events/recommendations/rebalance"] = json.dumps(
            {"noticeTime": _text(notices.rebalance_at)}
        )
    if notices.ends_at is not None:
        documents["spot/instance-action"] = json.dumps(
            {"action": "terminate", "time": _text(notices.ends_at)}
        )
        documents["spot/termination-time"] = _text(notices.ends_at)
    return documents


def _notices(instance_id: str) -> _Notices:
    instance = find_instance(instance_id)
    if instance is None or not instance.is_running() or instance.lifecycle != "spot":
        raise SimulatorError(
            "There is no such spot instance",
            given=instance_id,
            allowed="a running instance of the market spot",
            advice="DescribeInstances shows them with the filter instance-lifecycle=spot",
        )
    return _NOTICES.setdefault(instance_id, _Notices())


def _text(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
