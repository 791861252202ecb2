"""The instance metadata service, version 2: this host's identity."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from terradask_host.errors import MetadataUnavailable

#: AWS (documented): A token of the instance metadata service is valid for up to six hours, and 401
#: is the answer to an invalid one.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html
TOKEN_SECONDS = 21_600

ROLES = ("scheduler", "worker")


@dataclass(frozen=True)
class Identity:
    """An instance's identity: its addresses, its zone, and the tags that name its cluster."""

    instance_id: str
    private_address: str
    public_address: str | None
    zone: str
    cluster: str
    role: str
    group: str
    instance_type: str | None = None


class InstanceMetadata:
    """A client of the instance metadata service that uses only version 2."""

    def __init__(self, endpoint: str, *, timeout_seconds: float = 2.0) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme != "http" or not parts.hostname:
            raise MetadataUnavailable(
                "The metadata service's endpoint is not an http address.",
                given=endpoint,
                allowed="http://…",
            )
        self.endpoint = endpoint
        self._host = parts.hostname
        self._port = parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._timeout = timeout_seconds
        self._token: str | None = None

    def get(self, path: str) -> str | None:
        """Return ``/latest/<path>``, or None if it is missing. Raises `MetadataUnavailable`."""
        for _ in range(2):
            if self._token is None:
                self._token = self._new_token()
            status, body = self._request("GET", path, {"X-aws-ec2-metadata-token": self._token})
            if status != http.client.UNAUTHORIZED:
                break
            self._token = None
        if status == http.client.NOT_FOUND:
            return None
        if status != http.client.OK:
            raise MetadataUnavailable(
                f"The metadata service answered {status} to {path}.", given=self.endpoint
            )
        return body

    def identity(self) -> Identity:
        """Return this instance's identity.

        Raises `MetadataUnavailable` if a fact or a tag is missing, for instance because the launch
        template doesn't enable tags in the metadata.
        """
        role = self._need("meta-data/tags/instance/terradask:role")
        if role not in ROLES:
            raise MetadataUnavailable(
                "The tag terradask:role doesn't name a role of a host.",
                given=role,
                allowed=" or ".join(ROLES),
            )
        return Identity(
            instance_id=self._need("meta-data/instance-id"),
            private_address=self._need("meta-data/local-ipv4"),
            public_address=self.get("meta-data/public-ipv4") or None,
            zone=self._need("meta-data/placement/availability-zone"),
            cluster=self._need("meta-data/tags/instance/terradask:cluster"),
            role=role,
            group=self._need("meta-data/tags/instance/terradask:group"),
            instance_type=self.get("meta-data/instance-type") or None,
        )

    def run_id(self) -> str | None:
        """Return the tag ``terradask:run:id``, or None while the instance does not have it."""
        return self.get("meta-data/tags/instance/terradask:run:id") or None

    def warm_pool(self) -> str | None:
        """Return the name of this instance's group if it has a warm pool, else None."""
        return self.get("meta-data/tags/instance/terradask:warm-pool") or None

    def is_prepared(self) -> bool:
        """Return whether AWS launched this instance to stop it in a warm pool.

        AWS (documented): The target state of an instance that enters a warm pool is
        ``Warmed:Stopped``.
        https://docs.aws.amazon.com/autoscaling/ec2/userguide/retrieving-target-lifecycle-state-through-imds.html
        """
        state = self.get("meta-data/autoscaling/target-lifecycle-state") or ""
        return state.startswith("Warmed:")

    def is_spot(self) -> bool:
        """Return whether this is a spot instance, which AWS may interrupt."""
        return self.get("meta-data/instance-life-cycle") == "spot"

    def spot_notice(self) -> dict[str, Any] | None:
        """Return AWS's interruption notice (``action`` and ``time``), or None.

        Raises `MetadataUnavailable` if there is no valid answer.
        """
        text = self.get("meta-data/spot/instance-action")
        if text is None:
            return None
        try:
            notice = json.loads(text)
        except ValueError:
            notice = None
        if not isinstance(notice, dict):
            raise MetadataUnavailable(
                "The metadata service's spot/instance-action is not a JSON object.", given=text
            )
        return notice

    def rebalance_recommended(self) -> bool:
        """Return whether AWS recommends to replace this spot instance."""
        return self.get("meta-data/events/recommendations/rebalance") is not None

    def is_member(self) -> bool | None:
        """Return whether this instance stays in its Auto Scaling group; None if that isn't known.

        AWS (documented): ``autoscaling/target-lifecycle-state`` is ``InService``, and changes
        before an instance is taken out of its group.
        https://docs.aws.amazon.com/autoscaling/ec2/userguide/retrieving-target-lifecycle-state-through-imds.html
        """
        try:
            state = self.get("meta-data/autoscaling/target-lifecycle-state")
        except MetadataUnavailable:
            return None
        return None if not state else state == "InService"

    def _need(self, path: str) -> str:
        value = self.get(path)
        if not value:
            raise MetadataUnavailable(
                f"The metadata service has no {path}.",
                given=self.endpoint,
                advice=(
                    "The launch template must serve tags in the metadata, the group must "
                    "propagate its tags."
                ),
            )
        return value

    def _new_token(self) -> str:
        header = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        status, body = self._request("PUT", "api/token", header)
        if status != http.client.OK:
            raise MetadataUnavailable(
                f"The metadata service gave no token: {status}.", given=self.endpoint
            )
        return body

    def _request(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            connection.request(method, f"{self._prefix}/latest/{path}", headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            raise MetadataUnavailable(
                f"The metadata service does not answer: {type(error).__name__}: {error}",
                given=self.endpoint,
            ) from error
        finally:
            connection.close()


def interface_facts(metadata: InstanceMetadata, name: str) -> list[str]:
    """Return a fact of each of the instance's network interfaces that has it."""
    folder = "meta-data/network/interfaces/macs/"
    macs = (metadata.get(folder) or "").split()
    found = (metadata.get(f"{folder}{mac.rstrip('/')}/{name}") for mac in macs)
    return [each for each in found if each]
