"""The instance metadata service of one instance.

Sessions (IMDSv2) are required if the instance's metadata options require them; each instance's
service accepts only its own tokens. Tags are served if the options enable them, and read again for
each request.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from terradask_simulator.aws.backend import STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.credentials import RoleKeys
from terradask_simulator.aws.fidelity.group_activities import TERMINATING
from terradask_simulator.aws.fidelity.group_zones import warmed
from terradask_simulator.aws.fidelity.spot import notices_of
from terradask_simulator.aws.instances import find_instance, role_of

__all__ = ["Answer", "MetadataService", "metadata_paths"]

_MAX_TTL_SECONDS = 21600


@dataclass(frozen=True)
class Answer:
    """A response of the metadata service; headers are those other than length and type."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class MetadataService:
    """Answers one instance's requests.

    Every local process can connect, also those of other users: all paths begin with `prefix`, which
    is given only to the instance's host.
    """

    def __init__(self, instance_id: str, keys: RoleKeys) -> None:
        self.prefix = f"/{secrets.token_urlsafe(24)}"
        self._instance_id = instance_id
        self._keys = keys
        self._tokens: dict[str, float] = {}

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        """Answer a request."""
        path = unquote(path.partition("?")[0])
        prefix, path = path[: len(self.prefix)], path[len(self.prefix) :]
        knows = hmac.compare_digest(prefix.encode(), self.prefix.encode())
        return self._answer(method, path, headers) if knows else Answer(404)

    def _answer(self, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        with STATE_LOCK:
            instance = find_instance(self._instance_id)
            if instance is None:
                return Answer(404)
            options = instance.metadata_options
            if options.http_endpoint == "disabled":
                return Answer(403)
            if path == "/latest/api/token":
                return self._token(method, headers)
            if method not in ("GET", "HEAD"):
                return Answer(405)
            if not self._admitted(headers, required=options.http_tokens == "required"):
                return Answer(401)
            return self._read(instance, path)

    def _token(self, method: str, headers: Mapping[str, str]) -> Answer:
        if method != "PUT":
            return Answer(405)
        if "x-forwarded-for" in headers:
            return Answer(403)
        try:
            seconds = int(headers.get("x-aws-ec2-metadata-token-ttl-seconds", ""))
        except ValueError:
            return Answer(400)
        if not 1 <= seconds <= _MAX_TTL_SECONDS:
            return Answer(400)
        token = secrets.token_urlsafe(32)
        now = time.monotonic()
        self._tokens = {known: end for known, end in self._tokens.items() if end > now}
        self._tokens[token] = now + seconds
        return Answer(200, token, (("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", str(seconds)),))

    def _admitted(self, headers: Mapping[str, str], *, required: bool) -> bool:
        token = headers.get("x-aws-ec2-metadata-token")
        if token is None:
            return not required
        return self._tokens.get(token, 0.0) > time.monotonic()

    def _read(self, instance: Any, path: str) -> Answer:
        base = "/latest/meta-data"
        body: str | None
        if path == "/latest/user-data":
            body = (
                instance.__dict__.get("_embedded_user_data", b"").decode("utf-8", "replace") or None
            )
        elif path == "/latest/dynamic/instance-identity/document":
            body = json.dumps(_identity(instance), indent=2)
        elif path == base or path.startswith(base + "/"):
            body = self._metadata(instance, path[len(base) :].strip("/"))
        else:
            body = None
        return Answer(404) if body is None else Answer(200, body)

    def _metadata(self, instance: Any, wanted: str) -> str | None:
        if wanted.startswith("iam/security-credentials/"):
            credentials = self._keys.of(instance.id)
            if credentials is None or wanted.rpartition("/")[2] != credentials.role:
                return None
            return json.dumps(credentials.document(), indent=2)
        values = metadata_paths(instance)
        if wanted.startswith("iam") and (credentials := self._keys.of(instance.id)) is not None:
            values[f"iam/security-credentials/{credentials.role}"] = ""
        return values[wanted] if wanted in values else _listing(values, wanted) or None


def metadata_paths(instance: Any) -> dict[str, str]:
    """Return the metadata of an instance by path below ``meta-data/``; call with the lock held."""
    zone = instance.placement.zone
    values = {
        "ami-id": instance.image_id or "",
        "ami-launch-index": str(instance.ami_launch_index),
        "hostname": instance.private_dns_name,
        "instance-action": "none",
        "instance-id": instance.id,
        "instance-life-cycle": instance.lifecycle or "on-demand",
        "instance-type": instance.instance_type,
        "local-hostname": instance.private_dns_name,
        "local-ipv4": instance.private_ip_address,
        "mac": instance.nics[0].mac_address,
        **{
            f"network/interfaces/macs/{interface.mac_address}/{name}": str(value)
            for number, interface in instance.nics.items()
            for name, value in (
                ("device-number", number),
                ("interface-id", interface.id),
                ("security-group-ids", "\n".join(group.id for group in interface.group_set)),
            )
        },
        "placement/availability-zone": zone,
        "placement/region": instance.ec2_backend.region_name,
        "security-groups": "\n".join(sorted({group.name for group in instance.nics[0].group_set})),
        "services/domain": "amazonaws.com",
        "services/partition": "aws",
    }
    if instance.public_ip_address:
        values["public-ipv4"] = instance.public_ip_address
        values["public-hostname"] = instance.public_dns_name
    role = role_of(instance)
    if role is not None:
        profile = instance.iam_instance_profile
        info = {
            "Code": "Success",
            "InstanceProfileArn": profile["Arn"],
            "InstanceProfileId": profile["Id"],
        }
        values["iam/info"] = json.dumps(info, indent=2)
        values[f"iam/security-credentials/{role.name}"] = ""
    values.update(notices_of(instance.id))
    if (target := _target_state(instance)) is not None:
        values["autoscaling/target-lifecycle-state"] = target
    if instance.metadata_options.instance_metadata_tags == "enabled":
        for key, value in instance.ec2_backend.tags.get(instance.id, {}).items():
            values[f"tags/instance/{key}"] = value
    return values


def _target_state(instance: Any) -> str | None:
    """Return the lifecycle state that an instance's group has in mind; None outside of groups."""
    name = instance.ec2_backend.tags.get(instance.id, {}).get("aws:autoscaling:groupName")
    if name is None:
        return None
    group = next(
        (
            found
            for backend in autoscaling_backends()
            if (found := backend.autoscaling_groups.get(name)) is not None
        ),
        None,
    )
    if group is None:
        return "Terminated"
    states = [*group.instance_states, *warmed(group)]
    members = [state for state in states if state.instance.id == instance.id]
    for state in members:
        if state.lifecycle_state.startswith("Warmed:"):
            kept = group.warm_pool.pool_state if group.warm_pool is not None else "Terminated"
            ending = state.lifecycle_state.startswith("Warmed:Terminat")
            return f"Warmed:{'Terminated' if ending else kept}"
    # Members are removed from a group's list when they end, unless they linger.
    return (
        "InService" if any(one.lifecycle_state != TERMINATING for one in members) else "Terminated"
    )


def _listing(values: Mapping[str, str], folder: str) -> str:
    prefix = f"{folder}/" if folder else ""
    names = set()
    for path in values:
        if path.startswith(prefix):
            name, slash, _ = path[len(prefix) :].partition("/")
            names.add(name + slash)
    return "\n".join(sorted(names))


def _identity(instance: Any) -> dict[str, Any]:
    return {
        "accountId": instance.ec2_backend.account_id,
        "architecture": instance.architecture,
        "availabilityZone": instance.placement.zone,
        "imageId": instance.image_id,
        "instanceId": instance.id,
        "instanceType": instance.instance_type,
        "privateIp": instance.private_ip_address,
        "region": instance.ec2_backend.region_name,
        "version": "2017-09-30",
    }
