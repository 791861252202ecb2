"""The host's run: ``run.json`` and ``software.lock``, bound to it by the cluster's secret.

Hosts execute these documents, and every writer of the workspace's objects can replace them. So the
secret, which the start writes, holds the SHA-256 of each: a host reads a document's bytes once, and
compares them before it uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask_host.agent.objects import ClusterObjects, parse_with
from terradask_host.config import parse_document
from terradask_host.documents import Run, sha256_of
from terradask_host.errors import ConfigInvalid, DocumentChanged
from terradask_host.structure import Structure

RUN, SOFTWARE = "run.json", "software.lock"


def secret_id(workspace: str, cluster: str) -> str:
    """Return the name of a cluster's secret, from the host's identity and never from a document."""
    return f"terradask/{workspace}/{cluster}"


@dataclass(frozen=True)
class BoundRun:
    """A run whose ``run.json`` is the one it was started with.

    Parameters
    ----------
    run, structure
        The contents of ``run.json``.
    secret
        The document of the cluster's secret.
    """

    run: Run
    structure: Structure
    secret: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, content: bytes, secret: Mapping[str, Any]) -> BoundRun:
        """Check ``run.json`` against the secret, then parse it.

        Raises `DocumentChanged` when the document is another one; `ConfigInvalid` when its format
        is invalid, or an older terradask started the run without binding documents and roles.
        """
        check_document(secret, RUN, content)
        run = parse_with(Run.read, parse_document(content, RUN), RUN)
        if run.structure is None or not run.host_roles:
            raise _unbound("no structure or no roles in run.json")
        return cls(run, run.structure, secret)

    def check(self, name: str, content: bytes) -> None:
        """Check another document of the run; raises as `read` does."""
        check_document(self.secret, name, content)

    def is_current(self, objects: ClusterObjects) -> bool:
        """Return whether this run's ``run.json`` is still stored.

        Stopping the cluster deletes it; starting it again replaces it.
        """
        content = objects.read(RUN)
        return content is not None and sha256_of(content) == self.secret["sha256"][RUN]


def check_document(secret: Mapping[str, Any], name: str, content: bytes) -> None:
    """Check a document against the SHA-256 in the secret; raises as `BoundRun.read`."""
    digests = secret.get("sha256")
    if not isinstance(digests, Mapping) or not isinstance(digests.get(name), str):
        raise _unbound("no SHA-256 of the documents in the cluster's secret")
    found = sha256_of(content)
    if found != digests[name]:
        raise DocumentChanged(
            f"{name} is not the document that the cluster was started with.",
            given=f"SHA-256 {found}",
            allowed=f"SHA-256 {digests[name]}, from the cluster's secret",
            advice=(
                "Find out who wrote it (CloudTrail records that where data events of S3 are on), "
                "then stop and start the cluster."
            ),
        )


def _unbound(given: str) -> ConfigInvalid:
    return ConfigInvalid(
        "The run was started by an older terradask, which doesn't bind the documents to the run.",
        given=given,
        advice="With the terradask that the network was applied with: terradask stop, then start.",
    )
