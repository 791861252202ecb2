"""What a scheduler's host says of the environment that it builds for the other hosts of its run.

Everybody who may write the workspace's objects may write it, and hosts run what it leads to. So it
has a proof, for which a key of the run is needed. The cluster's secret has that key.
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

#: A folder in an environment into which a client has put packages that it has edited: it isn't
#: what its lock names any more.
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
        Where it is, where it is ready.
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
        """Return it with its proof."""
        return replace(self, proof=self._proof(key))

    def is_proven(self, key: bytes, run_id: str, lock_sha256: str) -> bool:
        """Return whether a host of this run has written it, about this lock."""
        own = (self.run_id, self.lock_sha256) == (run_id, lock_sha256)
        return hmac.compare_digest(self.proof.encode(), self._proof(key).encode()) and own

    def to_document(self) -> dict[str, Any]:
        """Return what ``environment.json`` holds."""
        return {"format": FORMAT, **asdict(self)}

    def _proof(self, key: bytes) -> str:
        said = json.dumps(asdict(replace(self, proof="")), sort_keys=True).encode()
        own_key = hmac.digest(key, _PURPOSE, hashlib.sha256)
        return hmac.new(own_key, said, hashlib.sha256).hexdigest()
