"""Record what each stack was applied from, in the workspace bucket.

Unchanged stacks then needn't be planned, and a state older than the last apply's is detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.s3 import ObjectStore, as_json
from terradask._common.json_text import parse_json
from terradask._network.baseline import BASELINE_KEY
from terradask._plans.basis import configuration_sha256
from terradask._terraform.state.model import StateVersion
from terradask._terraform.state.version import state_version
from terradask.errors import AccessDenied
from terradask_modules.names import NETWORK_STACK

if TYPE_CHECKING:
    from terradask._aws.session import Aws

APPLIED_FORMAT = 1
_PARALLEL_READS = 16


@dataclass(frozen=True)
class Applied:
    """What a stack was applied from, and the resulting state."""

    #: Checksum of the configuration.
    configuration_sha256: str
    #: Checksum of what a cluster's plan reads, the network's ``workspace.json``; else empty.
    inputs_sha256: str
    #: `serial`, `lineage`: the state afterwards; another apply or destroy changes them.
    serial: int
    lineage: str


class AppliedNotes:
    """The records of one workspace, under ``applied/`` in its bucket.

    Permissions needed: ``s3:GetObject``, ``PutObject`` and ``DeleteObject`` on
    ``applied/network.json`` or ``applied/clusters/*``, ``GetObject`` on ``workspace.json`` and on
    the states.
    """

    def __init__(self, aws: Aws, bucket: str) -> None:
        self._aws = aws
        self._store = ObjectStore(aws, bucket)

    def write(self, stack: str, folder: Path) -> None:
        """Record that a stack was applied just now from its folder."""
        self._store.write(
            _key(stack),
            as_json({"format": APPLIED_FORMAT, **asdict(self._now(folder, self._inputs(stack)))}),
        )

    def version(self, stack: str) -> StateVersion | None:
        """Return the state's version after the last apply; None if there is no readable record."""
        try:
            noted = parse_json(self._read(_key(stack)) or b"")
            return StateVersion(int(noted["serial"]), str(noted["lineage"]))
        except (ValueError, KeyError, TypeError, AccessDenied):
            return None

    def remove(self, stack: str) -> None:
        """Delete a stack's record, if there is one."""
        self._store.delete(_key(stack))

    def unchanged(self, folders: Mapping[str, Path]) -> tuple[str, ...]:
        """Return the stacks that a plan would find unchanged, apart from drift."""
        baseline = self._inputs("")
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            same = pool.map(
                lambda name: self._is_unchanged(
                    name, folders[name], "" if name == NETWORK_STACK else baseline
                ),
                folders,
            )
            return tuple(stack for stack, unchanged in zip(folders, same, strict=True) if unchanged)

    def _is_unchanged(self, stack: str, folder: Path, inputs: str) -> bool:
        try:
            noted = parse_json(self._read(_key(stack)) or b"")
        except (ValueError, AccessDenied):
            return False
        return bool(noted == {"format": APPLIED_FORMAT, **asdict(self._now(folder, inputs))})

    def _now(self, folder: Path, inputs: str) -> Applied:
        return Applied(
            configuration_sha256(folder), inputs, **asdict(state_version(folder, self._aws))
        )

    def _inputs(self, stack: str) -> str:
        text = None if stack == NETWORK_STACK else self._read(BASELINE_KEY)
        return hashlib.sha256(text).hexdigest() if text is not None else ""

    def _read(self, key: str) -> bytes | None:
        found = self._store.read(key)
        return None if found is None else found.content


def _key(stack: str) -> str:
    # Those of clusters in a folder of their own: the network's is written by fewer callers.
    return f"applied/{stack}.json" if stack == NETWORK_STACK else f"applied/clusters/{stack}.json"
