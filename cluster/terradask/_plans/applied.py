"""Record what each stack was applied from, in the workspace bucket.

Unchanged stacks then needn't be planned, and a state older than the last apply's is detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._common.json_text import parse_json
from terradask._common.side_by_side import side_by_side
from terradask._network.baseline import BASELINE_KEY
from terradask._plans.basis import configuration_sha256
from terradask._terraform.state.model import StateVersion
from terradask.errors import AccessDenied
from terradask_modules.names import NETWORK_STACK

APPLIED_FORMAT = 1
_PARALLEL_READS = 16


class AppliedNotes:
    """The records of one workspace, under ``applied/`` in its bucket.

    Permissions needed: ``s3:GetObject``, ``PutObject`` and ``DeleteObject`` on
    ``applied/network.json`` or ``applied/clusters/*``, ``GetObject`` on ``workspace.json`` and on
    the states.
    """

    def __init__(self, aws: Aws, bucket: str, version: Callable[[str], StateVersion]) -> None:
        self._version = version
        self._store = ObjectStore(aws, bucket)

    def write(self, stack: str, folder: Path) -> None:
        """Record that a stack was applied just now from its folder."""
        self._store.write(_key(stack), as_json(self._now(stack, folder, self._inputs(stack))))

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
        looks = [
            partial(self._is_unchanged, name, folder, "" if name == NETWORK_STACK else baseline)
            for name, folder in folders.items()
        ]
        return tuple(compress(folders, side_by_side(looks, _PARALLEL_READS)))

    def _is_unchanged(self, stack: str, folder: Path, inputs: str) -> bool:
        try:
            noted = parse_json(self._read(_key(stack)) or b"")
        except (ValueError, AccessDenied):
            return False
        return bool(noted == self._now(stack, folder, inputs))

    def _now(self, stack: str, folder: Path, inputs: str) -> dict[str, Any]:
        """Return a record: checksums of the configuration and of what a cluster's plan reads, and
        the state's version, which another apply or destroy changes.
        """
        return {
            "format": APPLIED_FORMAT,
            "configuration_sha256": configuration_sha256(folder),
            "inputs_sha256": inputs,
            **asdict(self._version(stack)),
        }

    def _inputs(self, stack: str) -> str:
        """Return the checksum of the network's ``workspace.json``; empty for the network."""
        text = None if stack == NETWORK_STACK else self._read(BASELINE_KEY)
        return hashlib.sha256(text).hexdigest() if text is not None else ""

    def _read(self, key: str) -> bytes | None:
        found = self._store.read(key)
        return None if found is None else found.content


def _key(stack: str) -> str:
    # Those of clusters in a folder of their own: the network's is written by fewer callers.
    return f"applied/{stack}.json" if stack == NETWORK_STACK else f"applied/clusters/{stack}.json"
