"""Remember the environments that hosts of this user's runs have built: the next run with the same
packages reuses them.

Environments of other users' runs aren't used: the user who starts a run decides about the code of
its hosts. A private cluster uses only its own.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from terradask._aws.endpoints import own_cache
from terradask._common.disk_cache import DiskCache
from terradask._observe.keys import KeySet
from terradask._observe.record import ClusterRecord
from terradask._observe.store import ENVIRONMENT, SOFTWARE
from terradask.errors import DocumentFormat, HostFailed
from terradask_host.documents import UNREADABLE, EnvironmentArchive, Run
from terradask_host.environment_manifest import FAILED, READY, SEPARATE, EnvironmentManifest

if TYPE_CHECKING:
    from terradask._network.baseline import Baseline


_POLL_SECONDS = 1.0
_SILENT_SECONDS = 5.0


def environment_id(record: ClusterRecord, baseline: Baseline, python: str, lock_text: str) -> str:
    """Return the digest of an environment's inputs: equal ids mean equal environments."""
    architecture = record.descriptor.architecture
    facts = [
        python,
        lock_text,
        architecture,
        # The image determines glibc, and so the wheels.
        baseline.templates["scheduler"][architecture].model_dump(),
        # An isolated cluster's hosts read no other's environments.
        record.name if baseline.isolation == "cluster" else None,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def wait_for_archive(
    record: ClusterRecord,
    run: Run,
    keys: KeySet,
    *,
    timeout_seconds: float,
    silent_seconds: float = _SILENT_SECONDS,
    poll_seconds: float = _POLL_SECONDS,
) -> EnvironmentArchive:
    """Wait until a run's scheduler host has sent its environment to the bucket. After
    `silent_seconds` without a manifest, the host builds none.

    Raises `HostFailed` with the host's reason.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < timeout_seconds:
        found = _manifest(record, run, keys)
        if found is not None and found.state == READY and found.archive is not None:
            return found.archive
        if found is not None and found.state in (FAILED, SEPARATE):
            raise not_built(record.name, found.reason)
        if found is None and waited > silent_seconds:
            # Hosts report a build before their scheduler runs; hosts of an embedded AWS build none.
            raise not_built(record.name, "its scheduler's host builds none")
        time.sleep(poll_seconds)
    raise not_built(record.name, f"no environment within {timeout_seconds:.0f} s")


def _manifest(record: ClusterRecord, run: Run, keys: KeySet) -> EnvironmentManifest | None:
    """Return the manifest of the run's environment, if it has the run's proof."""
    try:
        document = record.objects.read(ENVIRONMENT)
        manifest = None if document is None else EnvironmentManifest.read(document)
    except (DocumentFormat, *UNREADABLE):
        return None
    key, lock_sha256 = keys.scheduler.key.encode(), keys.sha256.get(SOFTWARE, "")
    if manifest is None or not manifest.is_proven(key, run.run_id, lock_sha256):
        return None
    return manifest


class BuiltEnvironments:
    """The archives of environments in one workspace's bucket, on this user's disk.

    A cluster's objects are read with ``s3:GetObject``; the archives themselves aren't read here.
    """

    def __init__(self, record: ClusterRecord, cache: DiskCache | None = None) -> None:
        self._record = record
        endpoint: str = record.aws.client("s3").meta.endpoint_url
        self._cache = cache or own_cache("environments", endpoint)

    def find(self, identity: str) -> EnvironmentArchive | None:
        """Return a known archive, or None. It may have been deleted from the bucket."""
        if self._cache is None:
            return None
        try:
            return EnvironmentArchive.read(self._cache.read(*self._names(identity)))
        except UNREADABLE:
            return None

    def learn(self, identity: str, run: Run, keys: KeySet) -> None:
        """Store the archive that the hosts of a run have built, if its manifest has proof."""
        if self._cache is None:
            return
        manifest = _manifest(self._record, run, keys)
        if (
            manifest is not None
            and manifest.state == READY
            and manifest.archive not in (None, self.find(identity))
        ):
            self._cache.write(asdict(manifest.archive), *self._names(identity))

    def _names(self, identity: str) -> tuple[str, ...]:
        record = self._record
        # Other users can read the keys of other clusters' runs, and forge proofs with them.
        own = (record.name,) if record.descriptor.cluster_settings.private_to_creator else ()
        return record.bucket, identity, *own


def not_built(cluster: str, why: str, *, advice: str | None = None) -> HostFailed:
    """Return the error for a host that built no shared environment."""
    return HostFailed(
        f"Cluster {cluster!r} has built no environment.",
        cluster=cluster,
        reason=why,
        advice=advice
        or "see its host's log: terradask logs shows it; hosts of other clusters build "
        "the environment themselves until then",
    )
