"""Read and write the objects of one cluster in the workspace's bucket, and read its secret."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from terradask._aws.s3 import MOST_BYTES as ANY_BYTES
from terradask._aws.s3 import TEXT, ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._common.json_text import parse_json
from terradask._common.side_by_side import side_by_side
from terradask.errors import DocumentFormat

DESCRIPTOR = "cluster.json"
RUN = "run.json"
SCHEDULER = "scheduler.json"
SOFTWARE = "software.lock"
CLOSING = "closing.json"
HOSTS = "hosts/"
EVENTS = "events/"
WHEELS = "wheels/"
ENVIRONMENT = "environment.json"
STATE = "terraform.tfstate"
STATE_LOCK = "terraform.tfstate.tflock"

#: Objects of one run, deleted when the cluster is stopped.
OF_A_RUN = (RUN, SCHEDULER, SOFTWARE, ENVIRONMENT)

_PARALLEL_READS = 16

#: Size limits of documents, by name or folder: code on a host can write some of them.
MOST_BYTES = {DESCRIPTOR: 2**20, RUN: 2**20, SCHEDULER: 2**18, HOSTS: 2**18, EVENTS: 2**24}


#: Most host reports that are read, the newest: code on a host can write any number.
MOST_REPORTS = 5_000


class ClusterObjects:
    """Objects under ``clusters/<name>/`` in the workspace bucket.

    Permissions needed: ``s3:GetObject``, ``PutObject``, ``DeleteObject`` on ``clusters/<name>/*``
    and ``s3:ListBucket``.
    """

    def __init__(self, aws: Aws, bucket: str, cluster: str) -> None:
        self._store = ObjectStore(aws, bucket, f"clusters/{cluster}/")

    def exists(self, name: str) -> bool:
        """Return whether an object exists, without reading it."""
        return name in self.names(name)

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object, or None if it doesn't exist."""
        try:
            found = self._store.read(name, most_bytes=_most_bytes(name))
            return None if found is None else parse_object(found.content, name)
        except DocumentFormat:
            # A host's report that is too large counts as unreadable, and is dropped.
            if name.startswith(HOSTS):
                return {}
            raise

    def read_bytes(self, name: str) -> bytes | None:
        """Return an object's content, or None if it doesn't exist."""
        found = self._store.read(name, most_bytes=_most_bytes(name))
        return None if found is None else found.content

    def read_version(self, name: str) -> tuple[dict[str, Any], str] | None:
        """Return a JSON object with its ETag, for `replace`, or None if it doesn't exist."""
        found = self._store.read(name, most_bytes=_most_bytes(name))
        return None if found is None else (parse_object(found.content, name), found.etag)

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON object, replacing any existing one."""
        self._store.write(name, as_json(document))

    def write_text(self, name: str, text: str) -> None:
        """Write a text object."""
        self._store.write(name, text.encode(), content_type=TEXT)

    def put_wheels(self, contents: Mapping[str, bytes]) -> None:
        """Write missing wheels, by name, which contains the content's SHA-256."""
        existing = set(self.names(WHEELS)) if contents else set()
        for name, content in contents.items():
            if name not in existing:
                self._store.write(name, content, content_type="application/zip")

    def claim(self, name: str, document: dict[str, Any]) -> bool:
        """Write a JSON object if it doesn't exist; return whether it was written."""
        return self._store.claim(name, as_json(document))

    def replace(self, name: str, document: dict[str, Any], version: str) -> bool:
        """Replace a version of a JSON object; return whether it was still current."""
        return self._store.replace(name, as_json(document), version)

    def written_at(self, name: str) -> datetime.datetime | None:
        """Return the time of an object's write, by AWS's clock; None if it doesn't exist."""
        for found, entry in self._store.entries(name):
            if found == name:
                written: datetime.datetime = entry["LastModified"]
                return written
        return None

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; ignore those that don't exist."""
        self._store.delete_all(names)

    def names(self, under: str = "") -> list[str]:
        """List the names of objects that start with `under`; none if there is no bucket."""
        return self._store.names(under)

    def hosts(self, most: int | None = None) -> list[dict[str, Any]]:
        """Read the latest host reports, in the order of their instance ids."""
        entries, most = list(self._store.entries(HOSTS)), most or MOST_REPORTS
        if len(entries) > most:
            entries.sort(key=lambda entry: entry[1]["LastModified"])
        names = sorted(name for name, _ in entries[-most:])
        return [report for report in self.read_all(names) if report is not None]

    def host_versions(self) -> dict[str, str]:
        """List the reports of hosts: the ETag of each by its host's instance id."""
        return {
            name.removeprefix(HOSTS).removesuffix(".json"): entry["ETag"]
            for name, entry in self._store.entries(HOSTS)
        }

    def read_all(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        """Read JSON objects in parallel, in their order; None for those that don't exist."""
        return side_by_side([partial(self.read, name) for name in names], _PARALLEL_READS)


def _most_bytes(name: str) -> int:
    folder = f"{name.partition('/')[0]}/" if "/" in name else name
    return MOST_BYTES.get(folder, ANY_BYTES)


def parse_object(content: bytes | str, name: str) -> dict[str, Any]:
    """Return a JSON object. Raises `DocumentFormat`."""
    try:
        document = parse_json(content)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    if name.startswith(HOSTS):
        return {}
    raise DocumentFormat(
        f"{name} is not a JSON object.",
        allowed="the document that terradask wrote",
        advice="stop the cluster and start it again",
    )


def read_secret(
    aws: Aws, secret_id: str, *, version_id: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Read a version of a secret, by default the current one; return its id and document.

    Permission needed: ``secretsmanager:GetSecretValue`` on the secret.
    """
    version = {} if version_id is None else {"VersionId": version_id}
    value = aws.client("secretsmanager").get_secret_value(SecretId=secret_id, **version)
    return value["VersionId"], parse_object(value["SecretString"], f"the secret {secret_id}")


def holds_nothing(objects: ClusterObjects) -> bool:
    """Return whether only event logs, packages and an empty state remain (``cdktf destroy``)."""
    names = [name for name in objects.names() if not name.startswith((EVENTS, WHEELS))]
    return names == [STATE] and not (objects.read(STATE) or {}).get("resources")
