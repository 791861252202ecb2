"""Boot a host: fetch the host program's wheel from the bucket by its checksum, with the role's
credentials; write the boot's output, and report failures.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from terradask_simulator.aws.credentials import RoleCredentials
from terradask_simulator.aws.instances import InstanceView
from terradask_simulator.hosts.cloud_config import BootFailed, check_installed

__all__ = ["BootOutput", "WheelStore", "read_host_json"]

_FORMAT = 1
_OUTPUT = "var/log/cloud-init-output.log"


def read_host_json(root: Path) -> dict[str, Any]:
    """Return ``/etc/terradask/host.json`` of a host."""
    path = root / "etc/terradask/host.json"
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BootFailed("The user data writes no readable /etc/terradask/host.json") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise BootFailed(
            "/etc/terradask/host.json has another format than this simulator understands",
            given=document.get("format") if isinstance(document, dict) else document,
            allowed=str(_FORMAT),
        )
    return document


class WheelStore:
    """Unpacked wheels by checksum; hosts of one simulator share them, as they share one disk."""

    def __init__(self, folder: Path, endpoint_url: str) -> None:
        self._folder = folder
        self._endpoint_url = endpoint_url
        self._lock = threading.Lock()
        self._session: Any = None

    def fetch(self, host: dict[str, Any], credentials: RoleCredentials | None) -> Path:
        """Return the folder with the unpacked wheel of a host's ``host.json``; it is downloaded
        each time, with the host's role.
        """
        if credentials is None:
            raise BootFailed("The instance has no role that could fetch the host program's wheel")
        wheel = host["wheel"]
        place = {"Bucket": str(host["bucket"]), "Key": str(wheel["key"])}
        problem = f"s3://{place['Bucket']}/{place['Key']} can't be read"
        with self._client(str(host["region"]), credentials, problem) as client:
            content: bytes = client.get_object(**place)["Body"].read()
        found = hashlib.sha256(content).hexdigest()
        if found != wheel["sha256"]:
            raise BootFailed(
                "The host program's wheel has another checksum than the user data names",
                given=found,
                allowed=str(wheel["sha256"]),
            )
        return self._unpack(content, found)

    def installed(self, host: dict[str, Any]) -> Path:
        """Return the folder with the wheel that a host has fetched at its first boot."""
        return self._folder / str(host["wheel"]["sha256"])

    def report_failure(
        self, instance: InstanceView, root: Path, credentials: RoleCredentials | None, reason: str
    ) -> None:
        """Report a failed boot as ``boot.sh`` does: in the bucket, and with the boot's output in
        the host's log stream.
        """
        cluster = instance.tags.get("terradask:cluster")
        if not cluster or credentials is None:
            raise BootFailed("The instance has no cluster or no role to report to")
        host = read_host_json(root)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        document = {
            "format": _FORMAT,
            "run_id": instance.tags.get("terradask:run:id"),
            "instance_id": instance.instance_id,
            "role": instance.tags.get("terradask:role", ""),
            "group": instance.tags.get("terradask:group", ""),
            "state": "failed",
            "reason": reason,
            "at": at,
            "history": [["booting", at], ["failed", at]],
            "private_address": instance.private_address,
            "log_tail": reason.splitlines(),
        }
        key = f"clusters/{cluster}/hosts/{instance.instance_id}.json"
        problem = f"s3://{host['bucket']}/{key} can't be written"
        try:
            with self._client(str(host["region"]), credentials, problem) as client:
                body = json.dumps(document).encode()
                client.put_object(Bucket=host["bucket"], Key=key, Body=body)
        finally:
            # `boot.sh` runs without `set -e` at this point.
            self._ship_output(instance, cluster, host, credentials, BootOutput(root).marked(reason))

    def _ship_output(
        self,
        instance: InstanceView,
        cluster: str,
        host: dict[str, Any],
        credentials: RoleCredentials,
        lines: list[str],
    ) -> None:
        check_installed()
        from terradask_host.log_streams import LogStream, known_run

        run_id = known_run(instance.tags.get("terradask:run:id"))
        group = instance.tags.get("terradask:group", "")
        stream = LogStream(cluster, run_id, group, instance.instance_id).name
        where = {"logGroupName": str(host["log_group"]), "logStreamName": stream}
        first = int(time.time() * 1000) - len(lines)
        events = [{"timestamp": first + n, "message": line} for n, line in enumerate(lines)]
        problem = f"the log stream {stream} can't be written"
        with self._client(str(host["region"]), credentials, problem, "logs") as client:
            client.create_log_stream(**where)
            client.put_log_events(**where, logEvents=events)

    @contextlib.contextmanager
    def _client(
        self, region: str, credentials: RoleCredentials, problem: str, service: str = "s3"
    ) -> Iterator[Any]:
        import botocore.exceptions
        import botocore.session

        with self._lock:
            # One session keeps the service model in memory; creating clients from it isn't
            # thread-safe.
            if self._session is None:
                self._session = botocore.session.Session()
            client = self._session.create_client(
                service,
                region_name=region,
                endpoint_url=self._endpoint_url,
                aws_access_key_id=credentials.access_key,
                aws_secret_access_key=credentials.secret_key,
                aws_session_token=credentials.token,
            )
        try:
            yield client
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
            raise BootFailed(problem, given=str(error)) from error
        finally:
            client.close()

    def objects(
        self,
        region: str,
        bucket: str,
        prefix: str,
        credentials: RoleCredentials,
        *,
        problem: str,
    ) -> list[tuple[str, bytes]]:
        """Return the key and content of each object below a prefix; raises `BootFailed`."""
        with self._client(region, credentials, problem) as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
            return [(key, client.get_object(Bucket=bucket, Key=key)["Body"].read()) for key in keys]

    def _unpack(self, content: bytes, sha256: str) -> Path:
        folder = self._folder / sha256
        with self._lock:
            if not folder.is_dir():
                part = folder.with_suffix(".part")
                try:
                    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                        wheel.extractall(part)
                except zipfile.BadZipFile as error:
                    raise BootFailed(
                        "The host program's file isn't a wheel", given=f"{len(content)} bytes"
                    ) from error
                part.rename(folder)
        return folder


class BootOutput:
    """The output of cloud-init and ``boot.sh``, in cloud-init's file on a machine's disk."""

    def __init__(self, root: Path) -> None:
        self._path = root / _OUTPUT

    def cloud_init(self, event: str) -> None:
        """Write one of cloud-init's own lines, for a running or finished stage."""
        at = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime())
        self._write(f"Cloud-init v. 22.2.2 {event} at {at}.")

    def write(self, text: str) -> None:
        """Write a line in ``boot.sh``'s format."""
        self._write(f"terradask-boot: {text}")

    def add(self, text: str) -> None:
        """Write lines as they are."""
        for line in text.splitlines():
            self._write(line)

    def marked(self, reason: str) -> list[str]:
        """Return the lines that ``boot.sh`` ships after a failure, the reason last."""
        lines = self._path.read_text().splitlines() if self._path.is_file() else []
        own = "terradask-boot: "
        marked = [line if line.startswith(own) else f"cloud-init: {line}" for line in lines]
        first, *rest = reason.splitlines()
        return [*marked, f"{own}ERROR: {first}", *(f"  {line}" for line in rest)]

    def _write(self, line: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as output:
            output.write(f"{line}\n")
