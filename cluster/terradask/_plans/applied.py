"""Records in the workspace's bucket: inputs of each stack's last apply, and the history of actions.

Unchanged stacks then needn't be planned, and a state older than the last apply's is detected.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._common.clock import utc_text
from terradask._common.json_text import parse_json
from terradask._common.side_by_side import side_by_side
from terradask._network.baseline import BASELINE_KEY
from terradask._plans.basis import configuration_sha256
from terradask._terraform.state.model import StateVersion
from terradask.errors import AccessDenied, AwsError, DocumentFormat
from terradask_host.documents import UNREADABLE, moment_text, plain_lines, plain_text
from terradask_modules.names import HISTORY, NETWORK_STACK

if TYPE_CHECKING:
    from terradask._plans.saved import Plan


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
        checks = [
            partial(self._is_unchanged, name, folder, "" if name == NETWORK_STACK else baseline)
            for name, folder in folders.items()
        ]
        return tuple(compress(folders, side_by_side(checks, _PARALLEL_READS)))

    def _is_unchanged(self, stack: str, folder: Path, inputs: str) -> bool:
        try:
            noted = parse_json(self._read(_key(stack)) or b"")
        except (ValueError, AccessDenied):
            return False
        return bool(noted == self._now(stack, folder, inputs))

    def _now(self, stack: str, folder: Path, inputs: str) -> dict[str, Any]:
        """Return a record: checksums of the configuration and of a cluster's plan inputs, and the
        state's version, which another apply or destroy changes.
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
    # Clusters' records are in a separate folder: fewer callers may write the network's.
    return f"applied/{stack}.json" if stack == NETWORK_STACK else f"applied/clusters/{stack}.json"


# ---- the history of applies, destroys and runs ---------------------------------------------------


logger = logging.getLogger("terradask")

HISTORY_FORMAT = 1

_MOST_BYTES = 2**16
_PARALLEL_ENTRIES = 32
_KEY = re.compile(r"(\d{8}T\d{6}Z)-[0-9a-f]{6}\.json", re.ASCII)


@dataclass(frozen=True)
class HistoryEntry:
    """One action in a workspace.

    Parameters
    ----------
    at
        When, in UTC.
    what
        ``applied``, ``failed`` (an unfinished apply) or ``destroyed``; for a run ``started``,
        ``ended`` or ``replaced`` (its scheduler's host was replaced).
    stack
        ``network``, or the cluster's name.
    by
        ARN of the caller; None for the end of a run, which may end by itself.
    plan_sha256
        SHA-256 of the plan's file, if there was one.
    changes
        Numbers of created, changed and removed resources: ``add``, ``change``, ``remove``.
    run_id
        The run that started or ended.
    reason
        Reason for the end, such as ``idle for 20 minutes, …`` or ``stopped by`` and the caller; for
        a replaced host, its reason and cost; else None.
    """

    at: str
    what: str
    stack: str
    by: str | None = None
    plan_sha256: str | None = None
    changes: Mapping[str, int] = field(default_factory=dict)
    run_id: str | None = None
    reason: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read an entry, which other callers of the workspace may have written."""
        if document["format"] != HISTORY_FORMAT:
            raise ValueError("an entry doesn't match format 1")
        plan = document["plan_sha256"]
        return cls(
            at=moment_text(document["at"]),
            what=_text(document["what"]),
            stack=_text(document["stack"]),
            by=_text(document["by"]),
            plan_sha256=None if plan is None else _text(plan),
            changes={_text(key): int(n) for key, n in document["changes"].items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json``."""
        return asdict(self)


class History:
    """The history of one workspace. Every caller who makes clusters may write entries and change
    none; an entry's caller isn't verified.

    Permissions needed: ``s3:PutObject``, to read ``GetObject``, on ``history/*``, and
    ``s3:ListBucket``.
    """

    def __init__(self, aws: Aws, bucket: str) -> None:
        self._aws = aws
        self._store = ObjectStore(aws, bucket, HISTORY)

    def record(self, what: str, stack: str, plan: Plan | None = None) -> None:
        """Record an action of the caller; a failure is only logged, since the action is done."""
        now = datetime.datetime.now(datetime.UTC)
        file = None if plan is None else plan.plan_file
        document = {
            "format": HISTORY_FORMAT,
            "at": utc_text(now),
            "what": what,
            "stack": stack,
            "by": self._aws.caller_arn,
            "plan_sha256": None if file is None else file.sha256,
            "changes": {}
            if file is None
            else {"add": file.add, "change": file.change, "remove": file.remove},
        }
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            key = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}.json"
            # Callers may only write new entries.
            self._store.claim(key, as_json(document))
        except (AwsError, BotoCoreError, ClientError) as error:
            logger.warning("%s: could not record in history that it was %s: %s", stack, what, error)

    def read(self, since: datetime.datetime | None = None) -> list[HistoryEntry]:
        """Return the entries since a time, oldest first. Unreadable ones are skipped."""
        first = "" if since is None else f"{since:%Y%m%dT%H%M%SZ}"
        keys = [key for key in self._store.names() if _KEY.fullmatch(key) and key >= first]
        found = side_by_side([partial(self._read, key) for key in sorted(keys)], _PARALLEL_ENTRIES)
        return [entry for entry in found if entry is not None]

    def _read(self, key: str) -> HistoryEntry | None:
        try:
            stored = self._store.read(key, most_bytes=_MOST_BYTES)
            return None if stored is None else HistoryEntry.read(parse_json(stored.content))
        except (*UNREADABLE, DocumentFormat) as error:
            logger.warning(
                "%s%s is skipped: terradask didn't write it in this form (%s)",
                HISTORY,
                key,
                type(error).__name__,
            )
            return None


def _text(value: object) -> str:
    return str(plain_lines(plain_text(value)))
