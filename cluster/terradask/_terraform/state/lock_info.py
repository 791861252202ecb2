"""What is written into a state's lock: which user holds it, since when, and for what."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask._common.json_text import parse_json
from terradask_host.documents import plain_lines


@dataclass(frozen=True)
class LockInfo:
    """What Terraform writes into a lock. Each text is one line without control characters: callers
    who may only plan write locks too.
    """

    #: The lock's id.
    id: str | None = None
    #: ``user@host``.
    holder: str | None = None
    #: When it was taken, as Terraform writes it.
    since: str | None = None
    #: Such as ``OperationTypeApply``.
    operation: str | None = None
    #: What is locked.
    path: str | None = None

    @classmethod
    def from_text(cls, text: str) -> LockInfo:
        """Read the text in which Terraform describes a lock (``Lock Info: …``)."""
        info = dict(
            re.findall(r"^\s*(ID|Path|Operation|Who|Created):[ \t]*(.*?)[ \t]*$", text, re.M)
        )
        return cls._of(info)

    @classmethod
    def from_json(cls, content: bytes) -> LockInfo:
        """Read a lock; what another program wrote gets an id made from its content."""
        try:
            info = parse_json(content)
        except ValueError:
            info = None
        if isinstance(info, Mapping) and info.get("ID"):
            return cls._of(info)
        return cls(id=hashlib.sha256(content).hexdigest()[:16])

    @classmethod
    def _of(cls, info: Mapping[str, Any]) -> LockInfo:
        return cls(
            *(
                plain_lines(str(info[key])) if info.get(key) else None
                for key in ("ID", "Who", "Created", "Operation", "Path")
            )
        )

    @property
    def seconds(self) -> float | None:
        """When it was taken, in seconds since the epoch."""
        created = re.match(
            r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(?: \+0000 UTC|Z)",
            self.since or "",
        )
        if created is None:
            return None
        return datetime.datetime.fromisoformat(
            f"{created[1]}T{created[2]}+00:00"
        ).timestamp() + float(created[3] or 0)

    def describe(self) -> str:
        """Return who holds it since when, and for what."""
        doing = (
            f" ({self.operation.removeprefix('OperationType').lower()})" if self.operation else ""
        )
        return (
            f"locked by {self.holder or 'an unknown user'} since "
            f"{self._moment or 'an unknown time'}{doing}"
        )

    @property
    def _moment(self) -> str | None:
        """When it was taken, to the second; as it is given where that can't be read."""
        if self.seconds is None:
            return self.since
        return datetime.datetime.fromtimestamp(self.seconds, datetime.UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
