"""Scan a workspace's bucket: the clusters' objects, and who works on them. Read-only."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._cleanup.inventory import DeadLock, Deployed
from terradask._deployments.deployment import Deployment
from terradask._deployments.store import CLOSING, DESCRIPTOR, RUN, STATE, STATE_LOCK, ClusterObjects
from terradask._network.clusters import cluster_of_key
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.state.lock_info import LockInfo, proof_of_end
from terradask._terraform.state.s3 import S3Backend
from terradask.errors import DocumentFormat, FolderBusy
from terradask_host.documents import plain_text
from terradask_modules.names import cluster_key


@dataclass(eq=False, repr=False)
class BucketScan:
    """Reads one workspace's bucket."""

    aws: Aws
    bucket: str
    stacks: Path
    #: Locks, of those read, whose owners are provably gone.
    dead: list[DeadLock] = field(default_factory=list, init=False)
    #: Keys that no cluster can have.
    strange_keys: list[str] = field(default_factory=list, init=False)

    def listed(self) -> tuple[datetime.datetime, dict[str, dict[str, datetime.datetime]]]:
        """Return AWS's time, and each cluster's objects with their dates; none without a bucket."""
        listed: dict[str, dict[str, datetime.datetime]] = {}
        seen_at = datetime.datetime.now(datetime.UTC)
        for page in ObjectStore(self.aws, self.bucket).pages("clusters/"):
            # Ages are measured by AWS's clock, which dates the objects, not by this machine's.
            date = page["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
            seen_at = parsedate_to_datetime(date) if date else seen_at
            for entry in page.get("Contents", ()):
                key = entry["Key"].removeprefix("clusters/")
                cluster = cluster_of_key(key)
                if cluster is None:
                    self.strange_keys.append(plain_text(entry["Key"]))
                else:
                    listed.setdefault(cluster, {})[key.partition("/")[2]] = entry["LastModified"]
        return seen_at, listed

    def deployed(self, name: str, listed: Mapping[str, datetime.datetime]) -> Deployed:
        """Return the state of one cluster, from the dates of its objects."""
        is_whole, deployment = DESCRIPTOR in listed, Deployment(self.aws, self.bucket, name)
        is_partial = not is_whole and STATE in listed and has_resources(deployment.objects)
        found = Deployed(
            name,
            max(listed.values()),
            is_whole=is_whole,
            has_resources=is_partial,
            closing_at=listed[CLOSING] if CLOSING in listed and deployment.marked_closing else None,
            started_at=listed.get(RUN),
        )
        place = S3Backend(self.aws, self.bucket, cluster_key(name, STATE))
        return replace(found, held=self.held(name, place if STATE_LOCK in listed else None))

    def held(self, stack: str, place: S3Backend | None) -> str | None:
        """Return which process works on a stack; note a lock whose owner is provably gone."""
        folder, killed = self.stacks / stack, None
        if folder.with_name(f".{folder.name}.lock").exists():
            try:
                with FolderLock(folder, limit_seconds=0) as folder_lock:
                    killed = folder_lock.killed
            except FolderBusy as busy:
                return busy.problem
        lock = None if place is None else place.lock()
        return None if lock is None else self._holder(stack, lock, killed)

    def _holder(self, stack: str, lock: LockInfo, killed: Mapping[str, Any] | None) -> str | None:
        proof = proof_of_end(lock, killed)
        if proof is None:
            return f"its state is {lock.describe()}"
        since = (
            None
            if lock.seconds is None
            else datetime.datetime.fromtimestamp(lock.seconds, datetime.UTC)
        )
        self.dead.append(DeadLock(stack, lock.id or "", since, proof))
        return None


def has_resources(objects: ClusterObjects) -> bool:
    """Return whether a cluster's state has resources; True if the state can't be read."""
    try:
        state = objects.read(STATE)
    except DocumentFormat:
        # Terraform reports what is wrong with it when the cluster is destroyed.
        return True
    return bool((state or {}).get("resources"))
