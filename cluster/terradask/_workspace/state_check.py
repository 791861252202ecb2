"""The check of one cluster's states: the one in the bucket, and those in plans."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from terradask._aws.s3 import ObjectStore
from terradask._cleanup.known_state import without
from terradask._cleanup.state_guard import StateGuard
from terradask._deployments.store import STATE
from terradask._plans.basis import PlanArchive
from terradask._terraform.state.model import state_of
from terradask.errors import StateConflict
from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.names import cluster_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from terradask._workspace.context import WorkspaceContext


class ClusterStateCheck:
    """Checks one cluster's states; `terradask._cleanup.state_guard` says what for."""

    def __init__(self, context: WorkspaceContext, cluster: str) -> None:
        self._cluster = cluster
        self._context = context
        self._key = cluster_key(cluster, STATE)
        self._store = ObjectStore(context.aws, context.bucket)
        self._found: StateGuard | None = None

    def stored(self) -> None:
        """Refuse a state in the bucket with others' resources. Raises `ForeignResources`."""
        found = self._read()
        if found is not None:
            self._guard.check(found[0], self._where)

    def planned(self, path: Path) -> None:
        """Refuse a plan that starts from such a state. Raises `ForeignResources`."""
        self._guard.check(PlanArchive.read(path).document, self._where)

    def foreign(self) -> tuple[Mapping[str, str], ...]:
        """Return the entries of the state in the bucket that aren't the cluster's."""
        found = self._read()
        return () if found is None else self._guard.foreign(found[0])

    def remove_foreign(self) -> tuple[Mapping[str, str], ...]:
        """Take these entries out of the locked state, and return them. Raises `StateConflict`."""
        found = self._read()
        if found is None:
            return ()
        document, etag = found
        foreign = self._guard.foreign(document)
        if foreign:
            content = json.dumps(without(document, foreign), indent=2).encode()
            if not self._store.replace(self._key, content, etag):
                raise StateConflict(
                    "the state was written while it was being repaired: nothing was changed",
                    verb="state",
                    given=self._where,
                    advice=f"find out who writes it, then: terradask repair-state {self._cluster}",
                )
        return foreign

    def _read(self) -> tuple[Mapping[str, Any], str] | None:
        found = self._store.read(self._key)
        document = None if found is None else state_of(found.content, self._where)
        return None if found is None or not document else (document, found.etag)

    @property
    def _where(self) -> str:
        return f"s3://{self._context.bucket}/{self._key}"

    @property
    def _guard(self) -> StateGuard:
        if self._found is None:
            context, isolated = self._context, self._context.network.isolated()
            names = ClusterNames(
                where=context.network.where.of_cluster(self._cluster),
                role_path=None if isolated is None else isolated.role_path,
                role_name_prefix="" if isolated is None else isolated.role_name_prefix,
            )
            self._found = StateGuard(context.aws, names)
        return self._found
