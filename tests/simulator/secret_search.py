"""Searches everything that a cluster's life leaves, or shows while it lasts, for secrets in
whatever form they may take.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from terradask._aws.listing import listed
from terradask_simulator import Simulator

Client = Callable[[str], Any]
#: Where something was found: a place, and which secret.
Found = tuple[str, str]

_SHORTEST = 8


class Secrets:
    """What must be found nowhere, by name; texts, and private keys in every form that they are
    written in.
    """

    def __init__(self, planted: Mapping[str, str]) -> None:
        self._forms: dict[str, set[bytes]] = {}
        for name, text in planted.items():
            self.add(name, text.encode())

    def add(self, name: str, secret: bytes) -> None:
        """Look for a text."""
        encoded = {
            secret,
            base64.b64encode(secret),
            secret.hex().encode(),
            urllib.parse.quote(secret).encode(),
        }
        encoded |= {json.dumps(secret.decode(errors="surrogateescape"))[1:-1].encode()}
        # In the middle of something that was encoded, the same bytes look otherwise: without what
        # depends on their neighbours.
        encoded |= {base64.b64encode(b"-" * shift + secret)[4:-4] for shift in (1, 2)} | {
            base64.b64encode(secret)[:-4]
        }
        self._forms.setdefault(name, set()).update(
            form for form in encoded if len(form) >= _SHORTEST
        )

    def add_key(self, name: str, key: Any) -> None:
        """Look for a private key of P-256: its number, its DER, and those lines of its PEM that
        have the number in them.
        """
        number = key.private_numbers().private_value.to_bytes(32, "big")
        self.add(name, number)
        for kind, lines in (
            (serialization.PrivateFormat.PKCS8, 2),
            (serialization.PrivateFormat.TraditionalOpenSSL, 1),
        ):
            self.add(
                name,
                key.private_bytes(serialization.Encoding.DER, kind, serialization.NoEncryption()),
            )
            pem = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
            # What follows is the public key, which certificates have too.
            self._forms[name].update(pem.splitlines()[1 : 1 + lines])

    @property
    def names(self) -> set[str]:
        """What is looked for."""
        return set(self._forms)

    def find(self, place: str, content: bytes) -> list[Found]:
        """Return which of them a content holds, also within archives."""
        return [
            (where, name)
            for where, layer in layers(place, content)
            for name, forms in self._forms.items()
            if any(form in layer for form in forms)
        ]


def layers(place: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a content and what is packed in it."""
    yield place, content
    if content[:2] == b"\x1f\x8b":
        with contextlib.suppress(OSError, EOFError, zlib.error):
            yield from layers(f"{place}, unpacked", gzip.decompress(content))
    if content[:2] == b"PK":
        with (
            contextlib.suppress(zipfile.BadZipFile),
            zipfile.ZipFile(io.BytesIO(content)) as archive,
        ):
            for member in archive.namelist():
                yield f"{place}: {member}", archive.read(member)


def in_account(client: Client) -> Iterator[tuple[str, bytes]]:
    """Yield what AWS keeps and hands out: objects in all their versions, log streams, user data,
    tags, groups, actions ahead.
    """
    s3, logs, ec2, groups = client("s3"), client("logs"), client("ec2"), client("autoscaling")
    for bucket in s3.list_buckets()["Buckets"]:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket["Name"]):
            for one in page.get("Versions", ()):
                answer = s3.get_object(
                    Bucket=bucket["Name"], Key=one["Key"], VersionId=one["VersionId"]
                )
                place = f"s3://{bucket['Name']}/{one['Key']}"
                yield place, answer["Body"].read() + json.dumps(answer["Metadata"]).encode()
    for group in listed(logs, "describe_log_groups", "logGroups"):
        for stream in listed(
            logs, "describe_log_streams", "logStreams", logGroupName=group["logGroupName"]
        ):
            which = {
                "logGroupName": group["logGroupName"],
                "logStreamName": stream["logStreamName"],
            }
            events = logs.get_log_events(**which, startFromHead=True)["events"]
            yield (
                f"log {which['logStreamName']}",
                "\n".join(event["message"] for event in events).encode(),
            )
    for template in listed(
        ec2,
        "describe_launch_template_versions",
        "LaunchTemplateVersions",
        Versions=["$Latest", "$Default"],
    ):
        data = template["LaunchTemplateData"]
        yield f"launch template {template['LaunchTemplateName']}", json.dumps(data).encode()
        yield (
            f"user data of {template['LaunchTemplateName']}",
            base64.b64decode(data.get("UserData", "")),
        )
    for place, client_of, operation, member in (
        ("tags", ec2, "describe_tags", "Tags"),
        ("groups", groups, "describe_auto_scaling_groups", "AutoScalingGroups"),
        ("actions ahead", groups, "describe_scheduled_actions", "ScheduledUpdateGroupActions"),
        ("activities", groups, "describe_scaling_activities", "Activities"),
    ):
        rows = list(listed(client_of, operation, member))
        yield place, json.dumps(rows, default=str).encode()


def in_processes() -> Iterator[tuple[str, bytes]]:
    """Yield command lines and environments of every process of this machine that can be read."""
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                content = (folder / name).read_bytes()
                yield (
                    f"{name} of {content[:60]!r}"
                    if name == "cmdline"
                    else f"environ of process {folder.name}",
                    content,
                )


def in_files(*folders: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file below some folders, but packages and the provider, which are everybody's."""
    for folder in folders:
        for path in folder.rglob("*"):
            if not {"wheels", "providers", "site-packages", "__pycache__"} & set(path.parts):
                with contextlib.suppress(OSError):
                    if path.is_file() and not path.is_symlink():
                        yield str(path), path.read_bytes()


def search(secrets: Secrets, simulator: Simulator, *folders: Path) -> list[Found]:
    """Search the account, the processes, and folders: the simulator's own has hosts' disks and the
    stacks with their plans.
    """
    clients = contextlib.ExitStack()

    def client(service: str) -> Any:
        made = simulator.client(service)
        clients.callback(made.close)
        return made

    with clients:
        places = (*in_account(client), *in_processes(), *in_files(*folders))
    return [found for place, content in places for found in secrets.find(place, content)]


def keys_in_memory(sim: Simulator) -> dict[Path, tuple[str, tuple[str, int]]]:
    """Return the role, and the content and mode, of each key in a host's memory, by its path."""
    files = [
        (host.role, file.resolve())
        for host in sim.hosts()
        for file in (host.log_path.parent / "root/run/terradask").glob("*.key")
    ]
    return {file: (role, (file.read_text(), file.stat().st_mode & 0o777)) for role, file in files}
