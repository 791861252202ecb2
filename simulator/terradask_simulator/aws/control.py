"""What the embedded AWS answers about itself: calls, requests, groups, instances, history,
switches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.endpoint.calls import CallRecorder
from terradask_simulator.aws.history import History
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.instances import running_ids

__all__ = ["AwsControl"]


class AwsControl:
    """Questions to one AWS; without a gate there are no requests."""

    def __init__(self, recorder: CallRecorder, history: History, gate: Gate | None) -> None:
        self._recorder = recorder
        self._history = history
        self._gate = gate

    def answer(self, method: str, path: str, query: dict[str, str]) -> Any:
        """Return the answer as JSON knows it, or None for an unknown path."""
        if method == "POST":
            return self._reset() if path == "calls/reset" else None
        counts = {"role": self._recorder.by_role, "resource": self._recorder.by_resource}
        answers: dict[str, Callable[[], Any]] = {
            "calls": counts.get(query.get("by", ""), self._recorder.counts),
            "calls/log": lambda: self._recorder.log(query.get("role", "")),
            "instances": running_ids,
            "groups": _groups,
            "history": self._history.as_dict,
            "requests": self._requests,
        }
        return answers[path]() if path in answers else None

    def _reset(self) -> dict[str, Any]:
        self._recorder.reset()
        if self._gate is not None:
            self._gate.log.reset()
        return {}

    def _requests(self) -> dict[str, list[dict[str, Any]]]:
        logged = {} if self._gate is None else self._gate.log.by_principal()
        return {entity: [one.as_dict() for one in requests] for entity, requests in logged.items()}


def _groups() -> list[dict[str, Any]]:
    with STATE_LOCK:
        return [
            {
                "name": group.name,
                "desired": group.desired_capacity,
                "instances": [state.instance.id for state in group.instance_states],
                "tags": {tag["Key"]: tag["Value"] for tag in group.tags},
            }
            for backend in autoscaling_backends()
            for group in backend.autoscaling_groups.values()
        ]
