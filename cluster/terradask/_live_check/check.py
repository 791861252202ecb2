"""The account check: the steps put together, in the order free, network, IAM, cluster, removal."""

from __future__ import annotations

import contextlib
import datetime
import json
import platform
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed_zones
from terradask._common.clock import utc_text
from terradask._common.progress import Progress, silent
from terradask._live_check.account import Account
from terradask._live_check.cluster import ClusterLife
from terradask._live_check.network import Network, UserRole
from terradask._live_check.place import SmokeWorkspace, base_folder
from terradask._live_check.removal import Removal, left_by_tag
from terradask._live_check.runner import Runner
from terradask._live_check.smoke_settings import LIMIT_SECONDS, smoke_settings
from terradask._live_check.steps import Notes, Step, StepResult, first_failed
from terradask._terraform import provider_mirror
from terradask._workspace.host_packages import packages_folder
from terradask.errors import LiveCheckFailed, TerradaskError
from terradask_stacks.settings.hardware import DEFAULT_INSTANCE_TYPES

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace


@dataclass
class LiveCheck:
    """One check of the account that a workspace's settings lead to."""

    workspace: Workspace
    runner: Runner
    progress: Progress = silent
    started_at: str = field(default_factory=utc_text)
    name: str = ""

    def run(self, confirm: Callable[[Offer], None]) -> None:
        """Run every step, until one fails; what was made is removed in any case.

        `confirm` is called once before anything is made, and raises if it shall not be.
        """
        account = Account(self.workspace, self.progress)
        first, then = account.who_calls(), account.steps()
        earlier = EarlierChecks(self.workspace, self.progress)
        if not self.runner.run([*first, earlier.step(), *then]):
            return
        confirm(Offer(self.workspace.account_id, self.workspace.region, account.hourly_usd))
        place = self.begin(account)
        self.name = place.name
        with place.alone():
            self._in(place)

    def _in(self, place: SmokeWorkspace) -> None:
        """Run what makes something, in the throw-away workspace, and remove it."""
        parts = Parts.of(place, self.workspace, self.progress)
        with time_limit(LIMIT_SECONDS) as limit:
            self.runner.why_interrupted = limit.why_interrupted
            self.runner.run_and_remove(
                parts.steps(),
                parts.removal.steps(),
                before_removal=[limit.lift, parts.life.leave],
            )

    def begin(self, account: Account) -> SmokeWorkspace:
        """Write down what is to be removed, before anything is made."""
        user = self.workspace
        place = SmokeWorkspace.begin(
            base_folder(),
            account=user.account_id,
            region=user.region,
            limit=datetime.timedelta(seconds=2 * LIMIT_SECONDS),
        )
        settings = smoke_settings(
            user.settings,
            place.name,
            until=place.record.until,
            zone=account.zone,
            types=account.instance_types,
            disk_gib=account.disk_gib,
            own_cidr=account.own_cidr,
            host_packages=packages_folder(user.settings, user.root),
        )
        place.write_settings(settings)
        return place

    def report(self) -> LiveReport:
        """Return how it went, so far."""
        return LiveReport(
            self.started_at,
            self.name,
            self.workspace.settings.workspace.region,
            {
                "terradask": metadata.version("terradask"),
                "python": platform.python_version(),
                "provider": provider_mirror.PROVIDER_VERSION,
            },
            tuple(self.runner.results),
        )

    def write_report(self, folder: Path) -> Path:
        """Write the report, and return its file."""
        report = self.report()
        path = folder / report.file_name
        path.write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True)
class Parts:
    """What makes something in a throw-away workspace, and what removes it. Used inside
    `SmokeWorkspace.alone`.
    """

    network: Network
    role: UserRole
    life: ClusterLife
    removal: Removal

    @classmethod
    def of(cls, place: SmokeWorkspace, user: Workspace, progress: Progress) -> Parts:
        """Put them together."""

        def load() -> Workspace:
            return type(user).load(place.folder, progress=progress)

        mine = load()
        life = ClusterLife(place.folder, load, progress)
        return cls(Network(mine), UserRole(mine), life, Removal(place, mine))

    def steps(self) -> list[Step]:
        """Return the steps that make something."""
        return [
            *self.network.steps(),
            *self.role.steps(),
            *self.life.steps(self.role.acting),
        ]


@dataclass(frozen=True)
class Offer:
    """What a check will take, for the question before it."""

    account: str
    region: str
    hourly_usd: Decimal | None
    limit_seconds: float = LIMIT_SECONDS

    @property
    def most_usd(self) -> Decimal | None:
        """The most that it costs, if everything runs for as long as it may."""
        if self.hourly_usd is None:
            return None
        return (self.hourly_usd * Decimal(self.limit_seconds) / 3600).quantize(Decimal("0.01"))


# ---- what checks have left that were killed ------------------------------------------------------


@dataclass(frozen=True)
class EarlierChecks:
    """Removes them before anything else: they may stand in the way, as VPCs do of a quota."""

    workspace: Workspace
    progress: Progress

    def step(self) -> Step:
        """Return the step."""
        return Step("earlier", "what earlier checks have left is removed", self._remove)

    def _remove(self, notes: Notes) -> str | None:
        aws, base = self.workspace.aws, base_folder()
        here = (aws.account_id, aws.region)
        found = [*SmokeWorkspace.left(base), *left_by_tag(aws, base)]
        mine = [one for one in found if (one.record.account, one.record.region) == here]
        if not mine:
            return "nothing is left"
        notes.facts["removed"] = [one.name for one in mine]
        for place in mine:
            if not place.has_settings:
                self._write_settings(place)
            taken = place.taken_over()
            with taken.alone():
                loaded = type(self.workspace).load(taken.folder, progress=self.progress)
                for step in Removal(taken, loaded).steps():
                    step.run(notes)
        return None

    def _write_settings(self, place: SmokeWorkspace) -> None:
        """Write settings with which all of it is found, of a check on another machine."""
        zones = listed_zones(self.workspace.aws.client("ec2"))
        settings = smoke_settings(
            self.workspace.settings,
            place.name,
            until=place.record.until,
            zone=zones[0],
            # Types and disks are those of hosts to come.
            types=list(DEFAULT_INSTANCE_TYPES),
        )
        place.write_settings(settings)


# ---- the report of an account check: what may be sent to others ----------------------------------


FORMAT = 1

#: A number of an AWS account, also in the middle of an ARN or a bucket's name.
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
#: The name of a user or of a session, after the kind of principal.
_PRINCIPAL = re.compile(r"(:(?:user|assumed-role|federated-user)/)[^\s\"']+")
#: A person's folder on this machine.
_HOME = re.compile(r"(/(?:home|Users)/)[^/\s\"']+")
_ADDRESS = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}/32")


@dataclass(frozen=True)
class LiveReport:
    """How a check went."""

    started_at: str
    workspace: str
    region: str
    #: Versions of terradask, Python, Terraform and the provider.
    versions: Mapping[str, str]
    results: Sequence[StepResult]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, without account, names of callers and their addresses."""
        failed = first_failed(self.results)
        whole = {
            "format": FORMAT,
            "started_at": self.started_at,
            "workspace": self.workspace,
            "region": self.region,
            "versions": dict(self.versions),
            "passed": failed is None,
            "failed_step": None if failed is None else failed.name,
            "seconds": round(sum(result.seconds for result in self.results), 1),
            "steps": [result.as_dict() for result in self.results],
        }
        found: dict[str, Any] = json.loads(without_identity(json.dumps(whole, default=str)))
        return found

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"terradask-live-{re.sub('[^0-9TZ]', '', self.started_at)}.json"


def without_identity(text: str) -> str:
    """Return a text without numbers of accounts, names of callers and their addresses."""
    text = _HOME.sub(r"\1<name>", _PRINCIPAL.sub(r"\1<name>", text))
    return _ADDRESS.sub("<address>/32", _ACCOUNT.sub("<account>", text))


# ---- A time limit on what costs: when it is over, the main thread is interrupted -----------------


@dataclass
class TimeLimit:
    """Whether it is over."""

    seconds: float
    is_over: bool = False

    def why_interrupted(self) -> TerradaskError | None:
        """Return the error if this has interrupted; None if the user has."""
        if not self.is_over:
            return None
        return LiveCheckFailed(
            "the check takes longer than it may",
            given=f"{self.seconds:.0f} s",
            advice="the step that was interrupted is the slow one; everything is removed",
        )

    def lift(self) -> None:
        """Interrupt no more; from now on an interruption is the user's."""
        self.is_over = False
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[TimeLimit]:
    """Interrupt the main thread after so many seconds; in another thread there is no limit."""
    limit = TimeLimit(seconds)
    if threading.current_thread() is not threading.main_thread():
        yield limit
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        limit.is_over = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield limit
    finally:
        limit.lift()
        signal.signal(signal.SIGALRM, before)
