"""Starts that are within the workspace's limits, and whose hosts AWS may not list yet.

Two starts at once each see only the hosts that run before them. So a start writes its numbers to
one object of the workspace right before it requests hosts, on condition that no other start has
written since the comparison. Else it compares again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.s3 import ObjectStore, as_json
from terradask._common.json_text import parse_json
from terradask.errors import AccessDenied, AwsError, DocumentFormat, TerradaskError
from terradask_host.document_fields import Record
from terradask_host.documents import UNREADABLE
from terradask_host.rules.limits import Running, Size, Use
from terradask_modules.names import ACCOUNTS, STARTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from terradask._aws.session import Aws

logger = logging.getLogger("terradask")

_FORMAT = 1
_MOST_BYTES = 2**20

#: An interrupted start counts so long, and one that has requested its hosts: all see these by then.
_LONGEST_SECONDS = 60.0
_LISTED_SECONDS = 10.0
#: How far clocks may differ.
_SKEW_SECONDS = 10.0
_ATTEMPTS = 20


@dataclass(frozen=True)
class StartingGroup(Record):
    """The hosts that a start requests of one Auto Scaling group."""

    hosts: int
    #: As in the group's tag.
    size: str = ""


@dataclass(frozen=True)
class Start(Record):
    """One start."""

    cluster: str
    owner: str
    team: str = ""
    #: Until when it counts, in seconds since the epoch, by AWS's clock.
    until: float = 0.0
    groups: Mapping[str, StartingGroup] = field(default_factory=dict)


@dataclass(frozen=True)
class Starts(Record):
    """The content of the object."""

    #: The run that changed it last: no content comes twice, so each has an ETag of its own.
    last: str = ""
    starts: tuple[Start, ...] = ()

    def current(self, now: float) -> Starts:
        """Return the starts that may still request hosts."""
        latest = now + _LONGEST_SECONDS + _SKEW_SECONDS
        return replace(self, starts=tuple(s for s in self.starts if now < s.until < latest))

    def beside(self, running: Running) -> Running:
        """Return what runs, and what these will run: of each group the larger number."""
        uses = {(one.cluster, one.group): one for one in running.uses}
        for start in self.starts:
            for group, each in start.groups.items():
                key = start.cluster, group
                if key not in uses or uses[key].hosts < each.hosts:
                    size = Size.of_tag(each.size)
                    kept = uses[key].prepared if key in uses else 0
                    use = Use(start.cluster, start.owner, start.team, group, each.hosts, size)
                    uses[key] = replace(use, prepared=kept)
        return replace(running, uses=[*uses.values()])


@dataclass(frozen=True)
class Version:
    """The starts as read, and the ETag of the object; None without one."""

    starts: Starts = field(default_factory=Starts)
    etag: str | None = None


@dataclass(frozen=True)
class StartingBook:
    """The workspace's object of starts.

    Permissions needed: ``s3:GetObject`` and ``PutObject`` on it, ``s3:ListBucket``.
    """

    aws: Aws
    bucket: str

    def read(self) -> Version:
        """Return the current starts; an unreadable object has none."""
        found = self._store.read(STARTING, most_bytes=_MOST_BYTES)
        if found is None:
            return Version()
        try:
            document = parse_json(found.content)
            if document["format"] != _FORMAT:
                raise ValueError(f"format {document['format']}")
            starts = Starts.read(document)
        except (*UNREADABLE, DocumentFormat) as error:
            logger.debug("%s%s is unreadable: %s", ACCOUNTS, STARTING, error)
            return Version(etag=found.etag)
        return Version(starts.current(self.now()), found.etag)

    def replace(self, version: Version, starts: Starts) -> bool:
        """Replace a version; return whether it was still current."""
        content = as_json({"format": _FORMAT, **asdict(starts)})
        if version.etag is None:
            return self._store.claim(STARTING, content)
        return self._store.replace(STARTING, content, version.etag)

    def now(self) -> float:
        """Return the time by AWS's clock, in seconds since the epoch."""
        return time.time() - self.aws.clock_ahead_seconds

    @property
    def _store(self) -> ObjectStore:
        return ObjectStore(self.aws, self.bucket, ACCOUNTS)


@dataclass(eq=False, repr=False)
class StartTurn:
    """One start's turn to request hosts.

    `compare` reads what runs, and compares the start with the limits beside it and these starts; it
    raises `QuotaExceeded`. It was called with `seen`, read before.
    """

    book: StartingBook
    start: Start
    seen: Version
    compare: Callable[[Starts], None]

    @contextmanager
    def taken(self, run_id: str, warn: Callable[[str], None]) -> Iterator[None]:
        """Take the turn; give it back once the hosts are requested, or won't be.

        Raises `QuotaExceeded` if another start was faster, `AwsError`.
        """
        try:
            self._take(run_id)
        except AccessDenied as error:
            warn(f"a start at the same moment isn't compared with the limits: {error.problem}")
            yield
            return
        try:
            yield
        except BaseException:
            self._give_back(run_id, 0.0)
            raise
        self._give_back(run_id, _LISTED_SECONDS)

    def _take(self, run_id: str) -> None:
        seen = self.seen
        for _ in range(_ATTEMPTS):
            if self.book.replace(seen, self._starts(seen, run_id, _LONGEST_SECONDS)):
                return
            seen = self.book.read()
            self.compare(seen.starts)
        raise AwsError(
            "too many clusters are being started at once",
            given=f"{_ATTEMPTS} starts in these seconds",
            advice="start it again",
        )

    def _give_back(self, run_id: str, seconds: float) -> None:
        try:
            for _ in range(_ATTEMPTS):
                seen = self.book.read()
                if self.book.replace(seen, self._starts(seen, f"{run_id} done", seconds)):
                    return
        except (TerradaskError, BotoCoreError, ClientError) as error:
            logger.debug("the start of %s counts longer: %s", self.start.cluster, error)

    def _starts(self, seen: Version, last: str, seconds: float) -> Starts:
        """Return the others' starts, and this one for so long."""
        others = [one for one in seen.starts.starts if one.cluster != self.start.cluster]
        own = [replace(self.start, until=self.book.now() + seconds)] if seconds else []
        return Starts(last, (*others, *own))
