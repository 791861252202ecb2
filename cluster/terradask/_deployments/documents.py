"""What the objects of a cluster say, typed: its descriptor, its run, where its scheduler is, what its hosts report.

Each document carries a format number. A client that meets another number says so, instead of guessing.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from terradask._deployments.lifetime import LifetimePolicy
from terradask._deployments.shortfall import Pool
from terradask.errors import TerradaskError
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import first_of

FORMAT = 1

logger = logging.getLogger(__name__)


class DocumentFormat(TerradaskError):
    """An object in the bucket was written by a terradask of another format, or isn't as its format says."""


@contextlib.contextmanager
def reading(what: str, advice: str) -> Iterator[None]:
    """Turn whatever goes wrong while a document is read into `DocumentFormat`."""
    try:
        yield
    except TerradaskError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise DocumentFormat(
            f"{what} isn't as its format says.", given=type(error).__name__, allowed=f"format {FORMAT}", advice=advice
        ) from None


def check_format(document: Mapping[str, Any], what: str, advice: str) -> None:
    """Refuse a document of another format.

    Raises
    ------
    DocumentFormat
    """
    if document.get("format") != FORMAT:
        raise DocumentFormat(
            f"{what} has a format that this terradask doesn't know.",
            given=f"format {document.get('format')!r}, written by terradask {document.get('terradask_version', '?')}",
            allowed=f"format {FORMAT}",
            advice=advice,
        )


@dataclass(frozen=True, kw_only=True)
class GroupEntry:
    """One Auto Scaling group of a cluster, as ``cluster.json`` tells it."""

    autoscaling_group: str
    role: str
    max_size: int
    market: str = "on-demand"
    worker_group: str = WORKER_GROUP
    #: Where its hosts may be. Empty, as an older terradask wrote it: in the cluster's zone.
    zones: tuple[str, ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> GroupEntry:
        """Read the entry, as far as this version knows its fields."""
        known = {k: v for k, v in document.items() if k in cls.__dataclass_fields__}
        return cls(**{**known, "zones": tuple(known.get("zones", ()))})


@dataclass(frozen=True)
class Descriptor:
    """A deployed cluster: structure, as ``cluster.json`` tells it."""

    workspace: str
    cluster: str
    region: str
    bucket: str
    zone: str
    groups: Mapping[str, GroupEntry]
    secret_id: str
    settings: Mapping[str, Any]
    lock: Mapping[str, Any]
    workers_per_host: int = 1

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Descriptor:
        """Read ``cluster.json``."""
        name = document.get("cluster", "?")
        advice = f"terradask apply {name}, with the newer of the two versions"
        check_format(document, f"Cluster {name!r}", advice)
        with reading(f"Cluster {name!r}", advice):
            return cls(
                workspace=document["workspace"],
                cluster=document["cluster"],
                region=document["region"],
                bucket=document["bucket"],
                zone=document["zone"],
                groups={key: GroupEntry.read(entry) for key, entry in document["groups"].items()},
                secret_id=document["secret_id"],
                settings=document["settings"],
                lock=document["lock"],
                workers_per_host=document["worker"].get("workers_per_host", 1),
            )

    @property
    def architecture(self) -> str:
        """Processor architecture of all hosts."""
        return str(self.lock.get("architecture", "x86_64"))

    @property
    def autoscaling_groups(self) -> dict[str, str]:
        """Name of each Auto Scaling group by the cluster's own name for it."""
        return {key: group.autoscaling_group for key, group in self.groups.items()}

    @property
    def worker_groups(self) -> dict[str, tuple[str, ...]]:
        """Group of workers -> the cluster's own names of its Auto Scaling groups, in the order in which AWS is asked.

        The group that every cluster has comes first; spot comes before on demand.
        """
        workers = [(key, group) for key, group in self.groups.items() if group.role == "worker"]
        names = sorted({group.worker_group for _, group in workers}, key=lambda name: (name != WORKER_GROUP, name))
        ordered = sorted(workers, key=lambda entry: entry[1].market != "spot")
        return {name: tuple(key for key, group in ordered if group.worker_group == name) for name in names}

    @property
    def pools(self) -> dict[str, Pool]:
        """What the hosts of each Auto Scaling group may be."""
        return {key: self._pool(group) for key, group in self.groups.items()}

    def _pool(self, group: GroupEntry) -> Pool:
        if group.role == "worker" and group.worker_group != WORKER_GROUP:
            types, settings = self.lock["group_instance_types"][group.worker_group], f"worker_groups.{group.worker_group}."
        else:
            types, settings = self.lock[f"{group.role}_instance_types"], f"{group.role}_"
        zones = group.zones or (self.zone,)
        return Pool(zones, group.market, tuple(types), settings, zone_named=self.settings.get("zone_name") is not None)

    def most_workers(self, group: str) -> int:
        """Return how many workers a group of workers may have: any one of its Auto Scaling groups may have to hold them all."""
        return max(self.groups[key].max_size for key in self.worker_groups[group])

    @property
    def max_workers(self) -> int:
        """Most workers that the cluster may have, of all groups together."""
        return sum(map(self.most_workers, self.worker_groups))

    def workers_at_start(self, group: str) -> int | None:
        """Return how many workers of a group the settings want at the start; None where they say nothing."""
        settings = self.settings if group == WORKER_GROUP else self.settings["worker_groups"][group]
        return first_of(settings.get("n_workers"))


@dataclass(frozen=True)
class Run:
    """One run of a cluster, from start to stop, as ``run.json`` tells it."""

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

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Run:
        """Read ``run.json``."""
        what, advice = "The cluster's run", "stop the cluster with the version that started it"
        check_format(document, what, advice)
        known = {k: v for k, v in document.items() if k in cls.__dataclass_fields__}
        with reading(what, advice):
            return cls(**{**known, "life": LifetimePolicy.read(known.get("life"))})

    def to_document(self) -> dict[str, Any]:
        """Return what ``run.json`` holds."""
        return {"format": FORMAT, **asdict(self)}


@dataclass(frozen=True)
class Ended:
    """That a run has ended by itself: when, and why."""

    at: str
    reason: str


@dataclass(frozen=True)
class SchedulerAddress:
    """Where the scheduler of a run is, or that the run has ended, as its host tells in ``scheduler.json``."""

    run_id: str
    instance_id: str
    boot: int
    private_address: str
    public_address: str | None
    dashboard_port: int
    python: str
    packages: Mapping[str, str]
    ended: Ended | None = None
    started_at: str | None = None

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> SchedulerAddress:
        """Read ``scheduler.json``."""
        what, advice = "The scheduler's address", "stop the cluster and start it again"
        check_format(document, what, advice)
        known = {k: v for k, v in document.items() if k in cls.__dataclass_fields__}
        ended = known.get("ended")
        with reading(what, advice):
            return cls(**{**known, "ended": Ended(_plain(ended["at"]), _plain(ended["reason"])) if ended else None})


@dataclass(frozen=True)
class HostReport:
    """What one host says of itself."""

    instance_id: str
    role: str
    group: str
    state: str
    reason: str | None
    at: str
    run_id: str
    private_address: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    #: Why the host came to each state of its history; hosts of earlier versions tell the last one's alone.
    reasons: tuple[str | None, ...] = ()
    log_tail: tuple[str, ...] = ()
    #: What a scheduler's host did to others: when, to which group, what, and why.
    notes: tuple[tuple[str, str, str, str], ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> HostReport:
        """Read ``hosts/<instance id>.json``: whatever runs on a host can write it, and people see it in a terminal."""
        with reading("A host's report", "nothing: the report is left out"):
            known = {k: v for k, v in document.items() if k in cls.__dataclass_fields__}
            plain: dict[str, Any] = {k: v if v is None else _plain(v) for k, v in known.items() if k not in _LISTS_OF_REPORTS}
            plain["at"] = _moment(known["at"])
            plain["history"] = tuple((_plain(state), _moment(at)) for state, at in known.get("history", ()))
            plain["reasons"] = tuple(None if reason is None else _plain(reason) for reason in known.get("reasons", ()))
            plain["log_tail"] = tuple(_plain(line) for line in known.get("log_tail", ()))
            plain["notes"] = tuple(
                (_moment(at), _plain(group), _plain(what), _plain(why)) for at, group, what, why in known.get("notes", ())
            )
            return cls(**plain)

    def lost(self) -> HostReport:
        """Return the report of a host whose instance is gone: its last words, unless it left or failed in order."""
        if self.state in {"left", "leaving", "failed"}:
            return self
        return replace(self, state="lost", reason=f"its instance is gone; it was {self.state}")

    def describe(self) -> str:
        """Tell in a line how far the host came, and why not further."""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.instance_id} ({self.group}) {self.state} since {self.at}{reason}"

    @property
    def failed_once(self) -> bool:
        """Whether the host failed, be it that it is tried again by now."""
        return self.state == "failed" or any(state == "failed" for state, _ in self.history)

    def describe_with_log(self, lines: int = 10) -> list[str]:
        """Tell how far the host came, with the end of its log, as lines of a message."""
        return [f"  {self.describe()}", *(f"    | {line}" for line in self.log_tail[-lines:])]


_LISTS_OF_REPORTS = ("history", "reasons", "notes", "log_tail")


def read_host_reports(documents: Iterable[Mapping[str, Any]]) -> list[HostReport]:
    """Read what hosts say of themselves; what can't be read is left out, with a warning: one host's nonsense stops nobody."""
    reports = []
    for document in documents:
        try:
            reports.append(HostReport.read(document))
        except DocumentFormat as error:
            logger.warning("a host's report is left out: %s", error.problem)
    return reports


def _plain(text: Any) -> str:
    """Return a text as a terminal may show it: without control characters, which could rewrite what stands there."""
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} is no text")
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _moment(text: Any) -> str:
    """Return a time as it is written, or refuse what is none."""
    datetime.datetime.fromisoformat(_plain(text))
    return str(text)
