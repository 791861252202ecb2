"""The documents of a cluster in the bucket, as their writers and readers at both ends have them.

Terraform writes ``cluster.json``, a start ``run.json``, the scheduler's host ``scheduler.json``,
each host ``hosts/<instance id>.json``. Each carries a format number. Fields that a reader doesn't
know are left out, those that an older writer didn't know have defaults; ``read`` raises one of
`UNREADABLE` where a document isn't as its format says.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from terradask_host.document_fields import typed
from terradask_host.scaling_policy import ScalingPolicy, policies_document, read_policies
from terradask_host.spot_exchange import Exchange
from terradask_host.structure import (
    GroupEntry,
    SchedulerEntry,
    Structure,
    WorkerEntry,
    known_fields,
)

#: The format of all of them.
FORMAT = 1

#: Largest performance report, compressed: one with more tasks has only the newest. The scheduler's
#: process makes none larger, but tasks could.
MOST_REPORT_BYTES = 8 * 2**20

#: Largest environment that hosts share.
MOST_ARCHIVE_BYTES = 2**35

#: What reading a document that isn't as its format says may raise.
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, OverflowError)

#: No cluster lives longer than its certificates can, whatever its run says.
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
        whole = {**document, **vars(Structure.read(document))}
        return cls(**typed(cls, known_fields(cls, whole)))

    @property
    def structure(self) -> Structure:
        """What the cluster's hosts need of it."""
        return Structure(groups=self.groups, worker=self.worker, scheduler=self.scheduler)


@dataclass(frozen=True)
class LifetimePolicy:
    """When a run ends by itself, as ``life`` of ``run.json`` has it. Times are in seconds; None
    means never.

    Parameters
    ----------
    idle_timeout_seconds
        With nothing to do for so long.
    idle_timeout_yields
        Whether an idle timeout of Dask's own takes its place.
    no_client_timeout_seconds
        With no client connected for so long.
    max_lifetime_seconds
        So long after its start, in any case.
    scheduler_silent_seconds
        After which a worker's host that has lost its scheduler leaves. None: as hosts have it.
    destroyed_after
        Whether the deployment goes too, with the next command: it was made for a client that is to
        take it along.
    """

    idle_timeout_seconds: float | None = 1200.0
    idle_timeout_yields: bool = True
    no_client_timeout_seconds: float | None = None
    max_lifetime_seconds: float = MOST_LIFETIME_SECONDS
    scheduler_silent_seconds: float | None = None
    destroyed_after: bool = False

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read ``life`` of ``run.json``."""
        return cls(**typed(cls, known_fields(cls, document)))


@dataclass(frozen=True)
class EnvironmentArchive:
    """An environment in the workspace's bucket: its object's key, size in bytes, and SHA-256."""

    key: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        # Hosts fetch it before they know whether it is the right one.
        if not 0 < self.size <= MOST_ARCHIVE_BYTES:
            raise ValueError(f"an environment's archive has 1 to {MOST_ARCHIVE_BYTES} bytes")

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the part of a document that names it."""
        found = cls(**typed(cls, known_fields(cls, document)))
        # Elsewhere those may write who may not write what hosts execute.
        if not found.key.startswith("environments/"):
            raise ValueError("an environment's archive isn't where schedulers' hosts put them")
        return found


@dataclass(frozen=True)
class Run:
    """One run of a cluster, from start to stop, as ``run.json`` holds it."""

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
    #: Whether hosts install archives by hash. An older terradask says nothing of it, and had none.
    hashed: bool = False
    #: The cluster's structure when the run was started. An older terradask left it to
    #: ``cluster.json``.
    structure: Structure | None = None
    #: Role of hosts, such as ``worker`` -> ARNs of the IAM roles that they may have. An older
    #: terradask named none.
    host_roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What a run with the same lock has built.
    environment: EnvironmentArchive | None = None
    #: The image that hosts run, with its digest, in place of an environment.
    container: str | None = None
    #: How groups of workers scale themselves from the start.
    scaling: Mapping[str, ScalingPolicy] = field(default_factory=dict)
    #: So long spot may launch nothing before hosts are asked for on demand.
    spot_fallback_seconds: float = 60.0

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read ``run.json``."""
        known = known_fields(cls, document)
        life, structure = known.get("life"), known.get("structure")
        if archive := known.get("environment"):
            known["environment"] = EnvironmentArchive.read(archive)
        known["scaling"] = read_policies(known.get("scaling") or {})
        known["life"] = None if life is None else LifetimePolicy.read(life)
        known["structure"] = None if structure is None else Structure.read(structure)
        roles = known.get("host_roles", {})
        known["host_roles"] = {role: tuple(arns) for role, arns in roles.items()}
        # What hosts give to processes stays as it is, and is shown nowhere.
        shown = {k: v if k in _AS_GIVEN else plain_lines(v) for k, v in known.items()}
        return cls(**typed(cls, shown))

    def to_document(self) -> dict[str, Any]:
        """Return what ``run.json`` holds."""
        structure = None if self.structure is None else self.structure.to_document()
        return {"format": FORMAT, **asdict(self), "structure": structure}


@dataclass(frozen=True)
class Ended:
    """That a run has ended by itself: when, and why."""

    at: str
    reason: str


@dataclass(frozen=True)
class SchedulerAddress:
    """Where the scheduler of a run is, or that the run has ended, as its host writes in
    ``scheduler.json``.
    """

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
    #: How groups of workers scale themselves now. None: its host is of an older terradask, and
    #: scales none.
    scaling: Mapping[str, ScalingPolicy] | None = None
    #: Groups of which some hosts go back to spot just now. None: its host is of an older terradask,
    #: and changes no market.
    exchanges: Mapping[str, Exchange] | None = None
    #: Group of workers -> the number of hosts that a client has set, and that it doesn't have yet.
    numbers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read ``scheduler.json``."""
        known = plain_lines(known_fields(cls, document))
        ended = document.get("ended")
        known["ended"] = (
            Ended(plain_text(ended["at"]), plain_text(ended["reason"])) if ended else None
        )
        known["scaling"] = None if (found := known.get("scaling")) is None else read_policies(found)
        if (exchanges := known.get("exchanges")) is not None:
            known["exchanges"] = {name: Exchange.read(each) for name, each in exchanges.items()}
        return cls(**typed(cls, known))

    def to_document(self) -> dict[str, Any]:
        """Return what ``scheduler.json`` holds."""
        document = {
            "format": FORMAT,
            "run_id": self.run_id,
            "instance_id": self.instance_id,
            "boot": self.boot,
            "started_at": self.started_at,
            "private_address": self.private_address,
            "public_address": self.public_address,
            "dashboard_port": self.dashboard_port,
            "packages": dict(self.packages),
            "python": self.python,
            "scaling": None if self.scaling is None else policies_document(self.scaling),
            "exchanges": None
            if self.exchanges is None
            else {name: asdict(each) for name, each in self.exchanges.items()},
            "numbers": dict(self.numbers),
        }
        return document if self.ended is None else {**document, "ended": asdict(self.ended)}


@dataclass(frozen=True)
class HostReport:
    """What one host says of itself, in ``hosts/<instance id>.json``."""

    instance_id: str
    role: str
    group: str
    state: str
    reason: str | None
    at: str
    #: None before the host knows it.
    run_id: str | None
    private_address: str | None = None
    #: States and when they began; the last is the present one.
    history: tuple[tuple[str, str], ...] = ()
    #: Why the host came to each state of its history; hosts of earlier versions give the last one's
    #: alone.
    reasons: tuple[str | None, ...] = ()
    log_tail: tuple[str, ...] = ()
    #: What a scheduler's host did to others: when, to which group, what, and why.
    notes: tuple[tuple[str, str, str, str], ...] = ()
    #: As the metadata service says. An older host program said nothing of it.
    instance_type: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read a report: whatever runs on a host can write it, and people see it in a terminal."""
        known = known_fields(cls, document)
        plain: dict[str, Any] = {
            k: v if v is None else plain_text(v)
            for k, v in known.items()
            if k not in _LISTS_OF_REPORTS
        }
        plain["at"] = moment_text(known["at"])
        plain["history"] = tuple(
            (plain_text(state), moment_text(at)) for state, at in known.get("history", ())
        )
        plain["reasons"] = tuple(
            None if reason is None else plain_text(reason) for reason in known.get("reasons", ())
        )
        plain["log_tail"] = tuple(plain_text(line) for line in known.get("log_tail", ()))
        plain["notes"] = tuple(
            (moment_text(at), plain_text(group), plain_text(what), plain_text(why))
            for at, group, what, why in known.get("notes", ())
        )
        return cls(**plain)

    def to_document(self) -> dict[str, Any]:
        """Return what the report's object holds."""
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "instance_id": self.instance_id,
            "role": self.role,
            "group": self.group,
            "state": self.state,
            "reason": self.reason,
            "at": self.at,
            "history": [list(entry) for entry in self.history],
            "reasons": list(self.reasons),
            "notes": [list(note) for note in self.notes],
            "private_address": self.private_address,
            "instance_type": self.instance_type,
            "log_tail": list(self.log_tail),
        }

    def lost(self) -> Self:
        """Return the report of a host whose instance is gone: its last words, unless it left or
        failed in order.
        """
        if self.state in {"left", "failed"}:
            return self
        if self.state == "leaving":
            return replace(self, state="left")
        return replace(self, state="lost", reason=f"its instance is gone; it was {self.state}")

    def belongs_to(self, run_id: str) -> bool:
        """Return whether it is of a run: one that failed before it knew its run is of the present
        one, since a start removes all earlier reports.
        """
        return self.run_id in {run_id, None}

    def describe(self) -> str:
        """Return in a line how far the host came, and why not further."""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.instance_id} ({self.group}) {self.state} since {self.at}{reason}"

    @property
    def failed_once(self) -> bool:
        """Whether the host failed, be it that it is tried again by now."""
        return self.state == "failed" or any(state == "failed" for state, _ in self.history)

    def describe_with_log(self) -> list[str]:
        """Return how far the host came, with the end of its log, as lines of a message."""
        return [f"  {self.describe()}", *(f"    | {line}" for line in self.log_tail[-10:])]


#: Fields of a run that are only for its hosts.
_AS_GIVEN = ("environ", "dask_config", "life", "structure", "scaling")

_LISTS_OF_REPORTS = ("history", "reasons", "notes", "log_tail")


def closing_document(at: str, reason: str | None = None) -> dict[str, Any]:
    """Return what ``closing.json`` holds: since when a deployment shall go, and why, where a host
    has decided that.
    """
    return {"format": FORMAT, "at": at, **({} if reason is None else {"reason": reason})}


def sha256_of(content: bytes) -> str:
    """Return the digest by which the cluster's secret names a document of a run."""
    return hashlib.sha256(content).hexdigest()


def now_text() -> str:
    """Return the time as documents carry it: UTC, seconds, ``Z``."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def plain_text(text: Any) -> str:
    """Return a text as a terminal may show it: without control characters, which could rewrite what
    stands there.
    """
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} is no text")
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def plain_lines(value: Any) -> Any:
    """Return a value with each text in it, also of lists and mappings, as one line of text."""
    if isinstance(value, str):
        return plain_text(value).translate({10: " ", 9: " "})
    if isinstance(value, tuple | list):
        lines = map(plain_lines, value)
        return list(lines) if isinstance(value, list) else tuple(lines)
    if isinstance(value, Mapping):
        return {plain_lines(key): plain_lines(each) for key, each in value.items()}
    return value


def moment_text(text: Any) -> str:
    """Return a time as it is written, or refuse what is none."""
    datetime.datetime.fromisoformat(plain_text(text))
    return str(text)
