"""The documents of a cluster in the bucket, for their writers and readers at both ends.

Terraform writes ``cluster.json``, a start ``run.json``, the scheduler's host ``scheduler.json``,
each host ``hosts/<instance id>.json``. Each has a format number. Unknown fields are ignored,
missing ones have defaults; ``read`` raises one of `UNREADABLE` if a document's format is wrong.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from terradask_host.document_fields import Record, fields_of
from terradask_host.scaling_policy import Exchange, ScalingPolicy
from terradask_host.structure import GroupEntry, SchedulerEntry, Structure, WorkerEntry
from terradask_host.words import host_word

#: The format of all documents.
FORMAT = 1

#: Largest performance report, compressed: one with more tasks has only the newest. The scheduler's
#: process makes none larger, but tasks could.
MOST_REPORT_BYTES = 8 * 2**20

#: Largest environment that hosts share.
MOST_ARCHIVE_BYTES = 2**35

#: Begin of the reason with which a Spot instance leaves that AWS takes back.
SPOT_NOTICE = "spot interruption notice"

#: The reason with which a prepared host leaves.
PREPARED = "prepared: AWS stops this instance until it is needed"

#: Errors of reading a document whose format is wrong.
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, OverflowError)

#: Longest life of a cluster: that of its certificates, whatever its run's settings.
MOST_LIFETIME_SECONDS = 30 * 86_400.0


@dataclass(frozen=True)
class ClusterDocument:
    """A deployed cluster: structure, as ``cluster.json`` holds it."""

    workspace: str
    cluster: str
    region: str
    bucket: str
    zone: str
    groups: Mapping[str, GroupEntry]
    secret_id: str
    settings: Mapping[str, Any]
    lock: Mapping[str, Any]
    worker: WorkerEntry = field(default_factory=WorkerEntry)
    scheduler: SchedulerEntry = field(default_factory=SchedulerEntry)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read ``cluster.json``."""
        return cls(**fields_of(cls, {**document, **vars(Structure.read(document))}))

    @property
    def structure(self) -> Structure:
        """The part of the cluster that its hosts need."""
        return Structure(groups=self.groups, worker=self.worker, scheduler=self.scheduler)


@dataclass(frozen=True)
class LifetimePolicy(Record):
    """The conditions for a run's end, in ``life`` of ``run.json``. Times are in seconds; None means
    never.

    Parameters
    ----------
    idle_timeout_seconds
        Time without work.
    idle_timeout_yields
        Whether an idle timeout of Dask's own replaces it.
    no_client_timeout_seconds
        Time without a connected client.
    max_lifetime_seconds
        Time after the start, in any case.
    scheduler_silent_seconds
        Time after which a worker's host that has lost its scheduler leaves. None: hosts' default.
    destroyed_after
        Whether the next command destroys the deployment too: it was to go with its client.
    """

    idle_timeout_seconds: float | None = 1200.0
    idle_timeout_yields: bool = True
    no_client_timeout_seconds: float | None = None
    max_lifetime_seconds: float = MOST_LIFETIME_SECONDS
    scheduler_silent_seconds: float | None = None
    destroyed_after: bool = False


@dataclass(frozen=True)
class EnvironmentArchive(Record):
    """An environment in the workspace's bucket: its object's key, size in bytes, and SHA-256."""

    key: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        # Hosts fetch it before they can check its hash.
        if not 0 < self.size <= MOST_ARCHIVE_BYTES:
            raise ValueError(f"an environment's archive has 1 to {MOST_ARCHIVE_BYTES} bytes")

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the part of a document that names it."""
        found = super().read(document)
        # Other prefixes have writers who must not write code that hosts execute.
        if not found.key.startswith("environments/"):
            raise ValueError("an environment's archive isn't below the prefix of schedulers' hosts")
        return found


@dataclass(frozen=True)
class MonthSpent(Record):
    """The cost of a month's runs until a time, in US dollars: those of the workspace, of a run's
    owner, and of its team.
    """

    at: str
    workspace: float = 0.0
    owner: float = 0.0
    team: float = 0.0


@dataclass(frozen=True)
class Run(Record):
    """One run of a cluster, from start to stop: ``run.json``."""

    run_id: str
    started_at: str
    owner: str
    secret_version_id: str
    python: str
    packages: Mapping[str, str]
    n_workers: int
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    dask_config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    life: LifetimePolicy | None = None
    #: Name of an environment variable -> ARN of the secret that hosts read for it.
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: Whether hosts install archives by hash. Missing in an older terradask's, which used none.
    hashed: bool = False
    #: The cluster's structure at the run's start. An older terradask left it to ``cluster.json``.
    structure: Structure | None = None
    #: Role of hosts, such as ``worker`` -> ARNs of the IAM roles that they may have. Missing in an
    #: older terradask's.
    host_roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The archive that a run with the same lock has built.
    environment: EnvironmentArchive | None = None
    #: The image that hosts run, with its digest, in place of an environment.
    container: str | None = None
    #: ARN of the secret with username and password for the image's registry.
    container_credentials: str | None = None
    #: Initial scaling policies of groups of workers.
    scaling: Mapping[str, ScalingPolicy] = field(default_factory=dict)
    #: Time without a Spot launch after which hosts are requested on demand.
    spot_fallback_seconds: float = 60.0
    #: The month's cost at the run's start, where the workspace limits it.
    month_spent: MonthSpent | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read ``run.json``."""
        # Values for hosts' processes stay unchanged, and are never shown.
        shown = {k: v if k in _AS_GIVEN else plain_lines(v) for k, v in document.items()}
        return super().read({**shown, "scaling": shown.get("scaling") or {}})

    def to_document(self) -> dict[str, Any]:
        """Return the document ``run.json``."""
        structure = None if self.structure is None else self.structure.to_document()
        return {"format": FORMAT, **asdict(self), "structure": structure}


@dataclass(frozen=True)
class Ended(Record):
    """A run's end by itself: time and reason."""

    at: str
    reason: str


@dataclass(frozen=True)
class SchedulerAddress(Record):
    """The scheduler's address or the run's end, which its host writes to ``scheduler.json``."""

    run_id: str
    instance_id: str
    #: Counts up each time a scheduler process comes up in the run.
    boot: int
    private_address: str
    public_address: str | None
    dashboard_port: int
    python: str
    packages: Mapping[str, str]
    ended: Ended | None = None
    started_at: str | None = None
    #: Current scaling policies. None: its host is of an older terradask, and scales nothing.
    scaling: Mapping[str, ScalingPolicy] | None = None
    #: Groups with hosts on their way back to Spot. None: its host is of an older terradask, and
    #: changes no market.
    exchanges: Mapping[str, Exchange] | None = None
    #: Group of workers -> the number of hosts that a client has set and the group hasn't reached.
    numbers: Mapping[str, int] = field(default_factory=dict)
    #: The near end of a run that is idle or without a client, unless that changes.
    ending: Ended | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read ``scheduler.json``."""
        ended = plain(document.get("ended")) or None
        return super().read({**plain_lines(document), "ended": ended})

    def to_document(self) -> dict[str, Any]:
        """Return the document ``scheduler.json``."""
        document = {"format": FORMAT, **asdict(self)}
        return {k: v for k, v in document.items() if v or k not in ("ended", "ending")}


@dataclass(frozen=True)
class HostReport(Record):
    """One host's report about itself: ``hosts/<instance id>.json``."""

    instance_id: str
    role: str
    group: str
    state: str
    reason: str | None
    at: str
    #: None before the host knows it.
    run_id: str | None
    private_address: str | None = None
    #: States and when they began; the last is the current one.
    history: tuple[tuple[str, str], ...] = ()
    #: Reason of each state of the history; hosts of earlier versions report only the last one's.
    reasons: tuple[str | None, ...] = ()
    log_tail: tuple[str, ...] = ()
    #: Actions of a scheduler's host on others: time, group, action, and reason.
    notes: tuple[tuple[str, str, str, str], ...] = ()
    #: From the metadata service. Missing in an older host program's.
    instance_type: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read a report. Any code on a host can write it, and terminals show it."""
        found = super().read(plain(document))
        for at in (found.at, *(at for _, at in found.history), *(note[0] for note in found.notes)):
            moment_text(at)
        return found

    def to_document(self) -> dict[str, Any]:
        """Return the report's document."""
        return {"format": FORMAT, **asdict(self)}

    def lost(self) -> Self:
        """Return the report of a host whose instance is gone: lost, unless it left or failed."""
        if self.state in {"left", "failed"}:
            return self
        if self.state == "leaving":
            return replace(self, state="left")
        reason = f"its instance is gone; it was {host_word(self.state)}"
        return replace(self, state="lost", reason=reason)

    def belongs_to(self, run_id: str) -> bool:
        """Return whether it is of a run. A host that failed before it knew its run is of the
        current one, because a start removes all earlier reports.
        """
        return self.run_id in {run_id, None}

    def describe(self) -> str:
        """Return a line with the host's last state and its reason."""
        reason = f": {self.reason}" if self.reason else ""
        word = host_word(self.state)
        return f"{self.instance_id} ({self.group}) {word} since {self.at}{reason}"

    @property
    def failed_once(self) -> bool:
        """Whether the host has failed, even if it is being restarted."""
        return self.state == "failed" or any(state == "failed" for state, _ in self.history)

    def describe_with_log(self) -> list[str]:
        """Return the host's last state and the end of its log, as lines of a message."""
        return [f"  {self.describe()}", *(f"    | {line}" for line in self.log_tail[-10:])]


#: Fields of a run that are only for its hosts.
_AS_GIVEN = ("environ", "dask_config", "life", "structure", "scaling")


def closing_document(at: str, reason: str | None = None) -> dict[str, Any]:
    """Return the document ``closing.json``: since when a deployment is to go, and why."""
    return {"format": FORMAT, "at": at, **({} if reason is None else {"reason": reason})}


def sha256_of(content: bytes) -> str:
    """Return the digest by which the cluster's secret names a document of a run."""
    return hashlib.sha256(content).hexdigest()


def now_text() -> str:
    """Return the time in documents' form: UTC, seconds, ``Z``."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plain_text(text: Any) -> str:
    """Return a text without control characters, which could overwrite a terminal's other text."""
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} is not a string")
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def plain(value: Any, show: Callable[[str], str] = plain_text) -> Any:
    """Return a value with each text in it, also in lists and mappings, passed through `show`."""
    if isinstance(value, str):
        return show(value)
    if isinstance(value, tuple | list):
        shown = (plain(each, show) for each in value)
        return list(shown) if isinstance(value, list) else tuple(shown)
    if isinstance(value, Mapping):
        return {plain(key, show): plain(each, show) for key, each in value.items()}
    return value


def plain_lines(value: Any) -> Any:
    """Return a value with each text in it, also in lists and mappings, as one line of text."""
    return plain(value, lambda text: plain_text(text).translate({10: " ", 9: " "}))


def moment_text(text: Any) -> str:
    """Return a time in its written form; raises for any other value."""
    datetime.datetime.fromisoformat(plain_text(text))
    return str(text)
