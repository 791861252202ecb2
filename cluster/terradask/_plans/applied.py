"""What each stack was applied from, as a note in the workspace bucket.

Stacks that would be planned as unchanged needn't be planned, and a state that is older than the one that the apply left is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.s3 import ObjectStore, as_json
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
    """What a stack was applied from, and the state that this left."""

    #: Checksum of the configuration.
    configuration_sha256: str
    #: Checksum of what the configuration reads when it is planned: for a cluster, what the network
    #: tells it; else empty.
    inputs_sha256: str
    #: `serial`, `lineage`: the state afterwards: another apply or destroy changes it.
    serial: int
    lineage: str


class AppliedNotes:
    """The notes of one workspace, each under ``applied/`` in its bucket.

    Notes
    -----
    Permissions needed: ``s3:GetObject``, ``PutObject`` and ``DeleteObject`` on ``applied/*``, ``GetObject`` on
    ``workspace.json`` and on the states.
    """

    def __init__(self, aws: Aws, bucket: str) -> None:
        self._aws = aws
        self._store = ObjectStore(aws, bucket)

    def write(self, stack: str, folder: Path) -> None:
        """Note that a stack was applied just now from what is in its folder."""
        self._store.write(_key(stack), as_json({"format": APPLIED_FORMAT, **asdict(self._now(folder, self._inputs(stack)))}))

    def version(self, stack: str) -> StateVersion | None:
        """Return the version of the state that the last apply left; None where none is noted, or the caller may not read it."""
        try:
            noted = json.loads(self._read(_key(stack)) or b"")
            return StateVersion(int(noted["serial"]), str(noted["lineage"]))
        except (ValueError, KeyError, TypeError, AccessDenied):
            return None

    def remove(self, stack: str) -> None:
        """Forget what a stack was applied from, if anybody noted it."""
        self._store.delete(_key(stack))

    def unchanged(self, folders: Mapping[str, Path]) -> tuple[str, ...]:
        """Return the stacks that a plan would find unchanged, unless something was changed beside Terraform."""
        baseline = self._inputs("")
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            same = pool.map(lambda name: self._is_unchanged(name, folders[name], "" if name == NETWORK_STACK else baseline), folders)
            return tuple(stack for stack, unchanged in zip(folders, same, strict=True) if unchanged)

    def _is_unchanged(self, stack: str, folder: Path, inputs: str) -> bool:
        try:
            noted = json.loads(self._read(_key(stack)) or b"")
        except (ValueError, AccessDenied):
            return False
        return bool(noted == {"format": APPLIED_FORMAT, **asdict(self._now(folder, inputs))})

    def _now(self, folder: Path, inputs: str) -> Applied:
        return Applied(configuration_sha256(folder), inputs, **asdict(state_version(folder, self._aws)))

    def _inputs(self, stack: str) -> str:
        text = None if stack == NETWORK_STACK else self._read(BASELINE_KEY)
        return hashlib.sha256(text).hexdigest() if text is not None else ""

    def _read(self, key: str) -> bytes | None:
        found = self._store.read(key)
        return None if found is None else found.content


def _key(stack: str) -> str:
    return f"applied/{stack}.json"
