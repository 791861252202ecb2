"""Assemble one embedded AWS at a bound socket; it reports the running instances."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from terradask_simulator.aws.access_keys import AccessKey, KeyRing
from terradask_simulator.aws.backend import STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.credentials import RoleKeys
from terradask_simulator.aws.endpoint.answers import LostAnswers
from terradask_simulator.aws.endpoint.application import Application, Control, Endpoint
from terradask_simulator.aws.endpoint.calls import CallRecorder
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.fidelity import install_all
from terradask_simulator.aws.fidelity import sessions as session_api
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.instances import InstanceView, running_ids
from terradask_simulator.aws.network import LoopbackNetwork
from terradask_simulator.aws.reconcile import History, ReconcileLoop
from terradask_simulator.aws.session_manager.sessions import Sessions
from terradask_simulator.aws.switches import aws_switches

__all__ = ["MOTO_SETTINGS", "EmbeddedAws"]

#: Variables that moto reads, some of them only at its import.
MOTO_SETTINGS = {
    "MOTO_DISABLE_GLOBAL_CORS": "true",
    "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
    "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true",
    "MOTO_S3_ALLOW_CROSSACCOUNT_ACCESS": "false",
}


class EmbeddedAws:
    """AWS at one port of this machine; one per process, since moto's state is global.

    ``key`` has all permissions. ``control`` answers requests below `CONTROL_PREFIX`, and may
    forward them to this AWS's own `answer`.
    """

    def __init__(
        self,
        server: socket.socket,
        key: AccessKey,
        control: Control,
        *,
        public_cidr: str,
        enforce_iam: bool,
    ) -> None:
        self.port: int = server.getsockname()[1]
        os.environ.update(MOTO_SETTINGS, MOTO_PORT=str(self.port))
        install_all(public_cidr=public_cidr)
        recorder, throttle, lost_answers, signatures = (
            CallRecorder(),
            Throttle(),
            LostAnswers(),
            Signatures(KeyRing(key)),
        )
        gate = Gate(key.access_key_id) if enforce_iam else None
        self.keys = RoleKeys(recorder)
        self.network = LoopbackNetwork(self.keys)
        session_api.install(Sessions(self.network))
        self._history = History()
        self._recorder, self._gate = recorder, gate
        self.switches = aws_switches(throttle, lost_answers, signatures, self.network)
        application = Application(
            self.port,
            recorder=recorder,
            control=control,
            signatures=signatures,
            throttle=throttle,
            lost_answers=lost_answers,
            gate=gate,
        )
        self._endpoint = Endpoint(server, application)
        self._loop: ReconcileLoop | None = None

    @property
    def url(self) -> str:
        """The endpoint's URL."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, follow: Callable[[list[InstanceView]], None] | None) -> None:
        """Start serving; ``follow`` gets the running instances several times a second."""
        self._loop = ReconcileLoop(self._history, follow)
        self.network.start()
        self._endpoint.start()
        self._loop.start()

    def freeze(self) -> None:
        """Stop launching, replacing and terminating instances; calls are still answered."""
        if self._loop is not None:
            self._loop.stop()

    def stop(self) -> None:
        """Stop serving."""
        self.network.stop()
        self._endpoint.stop()

    def answer(self, method: str, path: str, query: dict[str, str]) -> Any:
        """Return this AWS's calls, groups or history as JSON, or None for an unknown path."""
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
