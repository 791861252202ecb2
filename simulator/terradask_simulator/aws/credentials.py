"""Credentials of instances' roles, issued by moto's STS and registered with the call recorder."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK, account_in
from terradask_simulator.aws.endpoint.calls import CallRecorder
from terradask_simulator.aws.instances import find_instance, role_of

__all__ = ["RoleCredentials", "RoleKeys"]

_LIFETIME = datetime.timedelta(hours=6)
_RENEWED_BEFORE = datetime.timedelta(minutes=20)


@dataclass(frozen=True)
class RoleCredentials:
    """Credentials of a named role for an instance, as from the instance metadata service."""

    role: str
    access_key: str
    secret_key: str
    token: str
    issued: datetime.datetime
    expires: datetime.datetime

    def document(self) -> dict[str, str]:
        """Return the document of ``iam/security-credentials/ROLE``."""
        return {
            "Code": "Success",
            "LastUpdated": f"{self.issued:%Y-%m-%dT%H:%M:%SZ}",
            "Type": "AWS-HMAC",
            "AccessKeyId": self.access_key,
            "SecretAccessKey": self.secret_key,
            "Token": self.token,
            "Expiration": f"{self.expires:%Y-%m-%dT%H:%M:%SZ}",
        }


class RoleKeys:
    """Credentials of each instance, renewed shortly before they expire."""

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder
        self._kept: dict[str, RoleCredentials] = {}

    def of(self, instance_id: str) -> RoleCredentials | None:
        """Return an instance's credentials, or None if it has no role. One that ends has them
        until it is off, as on AWS: moto takes its profile at once.
        """
        now = datetime.datetime.now(datetime.UTC)
        with STATE_LOCK:
            instance = find_instance(instance_id)
            role = None if instance is None else role_of(instance)
            kept = self._kept.get(instance_id)
            if instance is None or role is None:
                return None if instance is None or instance.is_running() else kept
            if kept is not None and kept.role == role.name and kept.expires - now > _RENEWED_BEFORE:
                return kept
            made = self._mint(role, instance_id, instance.ec2_backend.region_name, now)
            self._kept[instance_id] = made
            return made

    def forget(self, instance_id: str) -> None:
        """Drop an ended instance's credentials."""
        with STATE_LOCK:
            self._kept.pop(instance_id, None)

    def _mint(
        self, role: Any, instance_id: str, region: str, now: datetime.datetime
    ) -> RoleCredentials:
        from moto.sts.models import sts_backends

        assumed = sts_backends[account_in(role.arn)]["aws"].assume_role(
            region_name=region,
            role_session_name=instance_id,
            role_arn=role.arn,
            policy="",
            duration=int(_LIFETIME.total_seconds()),
            external_id="",
        )
        self._recorder.register_role(assumed.access_key_id, role.name)
        return RoleCredentials(
            role.name,
            assumed.access_key_id,
            assumed.secret_access_key,
            assumed.session_token,
            now,
            now + _LIFETIME,
        )
