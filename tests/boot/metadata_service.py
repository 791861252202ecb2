"""The metadata service of EC2, version 2, at its address: it knows a machine by the address that it
asks from, and its facts, tags, user data and role from the embedded AWS.
"""

from __future__ import annotations

import base64
import datetime
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from terradask_simulator import Simulator

ADDRESS = "169.254.169.254"
_TOKEN_HEADER = "X-aws-ec2-metadata-token"
_TTL_HEADER = f"{_TOKEN_HEADER}-ttl-seconds"
_KEPT_SECONDS = 3.0
_ROLE = "/latest/meta-data/iam/security-credentials/"


class Metadata:
    """What the service answers, by the address of a machine."""

    def __init__(self, sim: Simulator) -> None:
        self._ec2, self._iam, self._sts, self._autoscaling = (
            sim.client(name) for name in ("ec2", "iam", "sts", "autoscaling")
        )
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, dict[str, Any] | None, dict[str, str]]] = {}

    def close(self) -> None:
        """Close the clients."""
        for client in (self._ec2, self._iam, self._sts, self._autoscaling):
            client.close()

    def read(self, address: str, path: str) -> str | None:
        """Return what is at a path for the machine with an address."""
        # The embedded AWS is one process: more at once would only wait there.
        with self._lock:
            instance, facts = self._known(address)
            if instance is None:
                return None
            if path == "/latest/user-data":
                return self._user_data(instance)
            role = facts["role"]
            if path == f"{_ROLE}{role.rsplit('/', 1)[1]}":
                return self._credentials(role, instance["InstanceId"])
            return facts.get(path) or _listing(facts, path) or None

    def _known(self, address: str) -> tuple[dict[str, Any] | None, dict[str, str]]:
        """Return the instance with its facts, looked up again every few seconds: cloud-init reads
        all of them.
        """
        at, instance, facts = self._kept.get(address, (0.0, None, {}))
        if time.monotonic() > at + _KEPT_SECONDS:
            found = self._find(address)
            # As on AWS, an instance that ends gets answers until it is off.
            if found is not None:
                instance, facts = found, self._facts(found)
            self._kept[address] = time.monotonic(), instance, facts
        return instance, facts

    def _find(self, address: str) -> dict[str, Any] | None:
        filters = [{"Name": "private-ip-address", "Values": [address]}]
        for reservation in self._ec2.describe_instances(Filters=filters)["Reservations"]:
            for instance in reservation["Instances"]:
                if instance["State"]["Name"] in ("pending", "running", "shutting-down", "stopping"):
                    return dict(instance)
        return None

    def _user_data(self, instance: dict[str, Any]) -> str:
        answer = self._ec2.describe_instance_attribute(
            InstanceId=instance["InstanceId"], Attribute="userData"
        )
        return base64.b64decode(answer["UserData"]["Value"]).decode()

    def _facts(self, instance: dict[str, Any]) -> dict[str, str]:
        profile = instance["IamInstanceProfile"]["Arn"].rsplit("/", 1)[1]
        made = self._iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]
        role = made["Roles"][0]
        zone = instance["Placement"]["AvailabilityZone"]
        identity = {"instanceId": instance["InstanceId"], "region": zone[:-1]}
        interface = instance["NetworkInterfaces"][0]
        mac = interface["MacAddress"]
        facts = {
            "ami-id": instance["ImageId"],
            "hostname": instance["PrivateDnsName"],
            "iam/info": "{}",
            "instance-id": instance["InstanceId"],
            "instance-life-cycle": instance.get("InstanceLifecycle", "on-demand"),
            "instance-type": instance["InstanceType"],
            "local-hostname": instance["PrivateDnsName"],
            "local-ipv4": instance["PrivateIpAddress"],
            "mac": mac,
            f"network/interfaces/macs/{mac}/device-number": "0",
            f"network/interfaces/macs/{mac}/interface-id": interface["NetworkInterfaceId"],
            "placement/availability-zone": zone,
            "placement/region": zone[:-1],
            "services/domain": "amazonaws.com",
            "services/partition": "aws",
            **_target(self._autoscaling, instance["InstanceId"]),
            **{f"tags/instance/{tag['Key']}": tag["Value"] for tag in instance["Tags"]},
        }
        return {
            **{f"/latest/meta-data/{name}": fact for name, fact in facts.items()},
            f"{_ROLE}{role['RoleName']}": "",
            "/latest/dynamic/instance-identity/document": json.dumps(identity),
            "role": role["Arn"],
        }

    def _credentials(self, role_arn: str, instance_id: str) -> str:
        keys = self._sts.assume_role(RoleArn=role_arn, RoleSessionName=instance_id)["Credentials"]
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=6)
        return json.dumps(
            {
                "Code": "Success",
                "LastUpdated": "2026-01-01T00:00:00Z",
                "Type": "AWS-HMAC",
                "AccessKeyId": keys["AccessKeyId"],
                "SecretAccessKey": keys["SecretAccessKey"],
                "Token": keys["SessionToken"],
                "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )


def _target(autoscaling: Any, instance_id: str) -> dict[str, str]:
    """Return the state that an instance's group has in mind; none outside of groups."""
    found = autoscaling.describe_auto_scaling_instances(InstanceIds=[instance_id])
    for one in found["AutoScalingInstances"]:
        state = one["LifecycleState"]
        target = "Warmed:Stopped" if state.startswith("Warmed:") else "InService"
        target = "Terminated" if "Terminat" in state else target
        return {"autoscaling/target-lifecycle-state": target}
    return {}


def _listing(facts: dict[str, str], path: str) -> str:
    folder = f"{path.rstrip('/')}/"
    below = [each.removeprefix(folder).partition("/") for each in facts if each.startswith(folder)]
    return "\n".join(sorted({name + slash for name, slash, _ in below}))


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    metadata: Metadata
    #: Requests that came without a token: none may.
    refused: list[str]

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_PUT(self) -> None:
        if self.path != "/latest/api/token" or _TTL_HEADER not in self.headers:
            self._send(400)
            return
        # One hop: a container on the machine would get no answer.
        self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        # A token of one machine is none of another's.
        self._send(200, f"token-{self.client_address[0]}", {_TTL_HEADER: self.headers[_TTL_HEADER]})

    def do_GET(self) -> None:
        if self.headers.get(_TOKEN_HEADER) != f"token-{self.client_address[0]}":
            self.refused.append(self.path)
            self._send(401)
            return
        # Dates name versions of the service, which answer alike here.
        _, _, rest = self.path.partition("?")[0][1:].partition("/")
        body = self.metadata.read(self.client_address[0], unquote(f"/latest/{rest}"))
        self._send(404 if body is None else 200, body or "")

    def _send(self, status: int, body: str = "", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


@contextmanager
def metadata_service(sim: Simulator) -> Iterator[list[str]]:
    """Serve metadata, and yield the paths that were asked for without a token."""
    metadata = Metadata(sim)
    refused: list[str] = []
    handler = type("Handler", (_Handler,), {"metadata": metadata, "refused": refused})
    server = http.server.ThreadingHTTPServer((ADDRESS, 80), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield refused
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        metadata.close()
