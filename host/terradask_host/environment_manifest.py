"""The scheduler host's manifest of the environment that it builds for the other hosts of its run.

Every writer of the workspace's objects may write it, and hosts run the environment. So it has a
proof, made with a key of the run from the cluster's secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from terradask_host.document_fields import Record
from terradask_host.documents import FORMAT, EnvironmentArchive

#: Other hosts wait for it, fetch it, build their own, or fail.
BUILDING, READY, SEPARATE, FAILED = "building", "ready", "separate", "failed"

#: Folder in an environment for packages that a client has edited: the environment then differs from
#: its lock.
EDITED = ".synced"

_PURPOSE = b"terradask environment"


@dataclass(frozen=True)
class EnvironmentManifest(Record):
    """``environment.json``, as a scheduler's host writes it.

    Parameters
    ----------
    run_id, lock_sha256
        The run, and its ``software.lock``.
    state
        ``building``, ``ready``, ``separate`` where each host builds its own, or ``failed``.
    archive
        The archive of a ``ready`` environment.
    reason
        Why there is none.
    proof
        An HMAC of all that, with a key of the run.
    """

    run_id: str
    lock_sha256: str
    state: str
    archive: EnvironmentArchive | None = None
    reason: str = ""
    proof: str = ""

    def proven(self, key: bytes) -> EnvironmentManifest:
        """Return the manifest with its proof."""
        return replace(self, proof=self._proof(key))

    def is_proven(self, key: bytes, run_id: str, lock_sha256: str) -> bool:
        """Return whether a host of this run wrote it, for this lock."""
        own = (self.run_id, self.lock_sha256) == (run_id, lock_sha256)
        return hmac.compare_digest(self.proof.encode(), self._proof(key).encode()) and own

    def to_document(self) -> dict[str, Any]:
        """Return the document ``environment.json``."""
        return {"format": FORMAT, **asdict(self)}

    def _proof(self, key: bytes) -> str:
        said = json.dumps(asdict(replace(self, proof="")), sort_keys=True).encode()
        own_key = hmac.digest(key, _PURPOSE, hashlib.sha256)
        return hmac.new(own_key, said, hashlib.sha256).hexdigest()
