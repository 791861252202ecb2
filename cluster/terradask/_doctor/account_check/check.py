"""The account check: its steps in the order free, network, IAM, cluster, removal."""

from __future__ import annotations

import contextlib
import datetime
import json
import platform
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from terradask._aws.listing import listed_zones
from terradask._common.clock import utc_text
from terradask._common.progress import Progress, silent
from terradask._doctor.account_check.account import Account
from terradask._doctor.account_check.assumptions import verdicts
from terradask._doctor.account_check.cluster import ClusterLife
from terradask._doctor.account_check.network import (
    UserRole,
    network_steps,
    removal_steps,
    unfinished_by_tag,
)
from terradask._doctor.account_check.place import LIMIT_SECONDS, CheckWorkspace, base_folder
from terradask._doctor.account_check.recorder import Recorder
from terradask._doctor.account_check.steps import Runner, Step, StepResult, TimeIsOver
from terradask._terraform.platforms import check_platform
from terradask_modules.frameworks import PROVIDER_VERSION
from terradask_stacks.settings.hardware import DEFAULT_INSTANCE_TYPES

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace


@dataclass
class LiveCheck:
    """One check of the account in a workspace's settings."""

    workspace: Workspace
    runner: Runner
    progress: Progress = silent
    started_at: str = field(default_factory=utc_text)
    name: str = ""

    @cached_property
    def recorder(self) -> Recorder:
        """The record of the check's own calls."""
        return Recorder(lambda: self.runner.current)

    @property
    def record_name(self) -> str:
        """The name of the record's file, beside the report."""
        return f"{self._stem}-record.json"

    @property
    def _stem(self) -> str:
        return f"terradask-live-{re.sub('[^0-9TZ]', '', self.started_at)}"

    def run(self, confirm: Callable[[Offer], None]) -> None:
        """Run every step until one fails; all resources are removed in any case.

        `confirm` is called once before anything is created, and raises to refuse.
        """
        with self.recorder.watching():
            self._run(confirm)

    def _run(self, confirm: Callable[[Offer], None]) -> None:
        check_platform()
        account = Account(self.workspace)
        earlier = earlier_checks(self.workspace, self.progress)
        if not self.runner.run([*account.prerequisites(), earlier, *account.steps()]):
            return
        confirm(Offer(self.workspace.account_id, self.workspace.region, account.hourly_usd))
        place = begin(account)
        self.name = place.name
        with place.alone():
            parts = Parts.of(place, self.workspace, self.progress)
            with time_limit(LIMIT_SECONDS) as lift:
                self.runner.run_and_remove(
                    parts.making(),
                    removal_steps(place, parts.workspace),
                    before_removal=[lift, parts.life.leave],
                )

    def report(self) -> dict[str, Any]:
        """Return the results so far as JSON, without account, callers and addresses."""
        results, failed = self.runner.results, self.runner.failed
        whole = {
            "format": FORMAT,
            "started_at": self.started_at,
            "workspace": self.name,
            "record": self.record_name,
            "region": self.workspace.settings.workspace.region,
            "versions": {
                "terradask": metadata.version("terradask"),
                "python": platform.python_version(),
                "provider": PROVIDER_VERSION,
            },
            "passed": failed is None,
            "failed_step": None if failed is None else failed.name,
            "seconds": round(sum(result.seconds for result in results), 1),
            "assumptions": verdicts(results),
            "steps": [result.as_dict() for result in results],
        }
        found: dict[str, Any] = json.loads(without_identity(json.dumps(whole, default=str)))
        return found

    def write_report(self, folder: Path) -> Path:
        """Write the report, and return its file. The record is beside it."""
        path = folder / f"{self._stem}.json"
        write_json(path, self.report())
        write_json(folder / self.record_name, self.recorder.document(self.started_at))
        return path


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file that people read."""
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def begin(account: Account) -> CheckWorkspace:
    """Record the resources to remove, before anything is created."""
    user = account.workspace
    place = CheckWorkspace.begin(
        base_folder(),
        account=user.account_id,
        region=user.region,
        limit=datetime.timedelta(seconds=2 * LIMIT_SECONDS),
        name=account.name,
    )
    place.write_settings(account.settings(place.name, until=place.until))
    return place


@dataclass(frozen=True)
class Parts:
    """The parts that create resources in a temporary workspace, inside `CheckWorkspace.alone`."""

    workspace: Workspace
    role: UserRole
    life: ClusterLife

    @classmethod
    def of(cls, place: CheckWorkspace, user: Workspace, progress: Progress) -> Parts:
        """Assemble the parts."""

        def load() -> Workspace:
            return type(user).load(place.folder, progress=progress)

        mine = load()
        return cls(mine, UserRole(mine), ClusterLife(place.folder, load, progress))

    def making(self) -> list[Step]:
        """Return the steps that create resources."""
        return [*network_steps(self.workspace), *self.after_network()]

    def after_network(self) -> list[Step]:
        """Return the steps that need the network."""
        return [self.role.step(), *self.life.steps(self.role.acting)]


@dataclass(frozen=True)
class Offer:
    """The extent and cost of a check, for the question before it."""

    account: str
    region: str
    hourly_usd: Decimal | None
    limit_seconds: float = LIMIT_SECONDS

    @property
    def most_usd(self) -> Decimal | None:
        """The highest cost, if everything runs as long as allowed."""
        if self.hourly_usd is None:
            return None
        return (self.hourly_usd * Decimal(self.limit_seconds) / 3600).quantize(Decimal("0.01"))


# ---- leftovers of killed checks ------------------------------------------------------------------


def earlier_checks(workspace: Workspace, progress: Progress) -> Step:
    """Return the step that removes leftovers, which can block the check: VPCs count for a quota."""
    aws, base = workspace.aws, base_folder()

    def remove(result: StepResult) -> str | None:
        found = [*CheckWorkspace.unfinished(base), *unfinished_by_tag(aws, base)]
        mine = [one for one in found if (one.account, one.region) == (aws.account_id, aws.region)]
        if not mine:
            return "nothing is left"
        result.facts["removed"] = [one.name for one in mine]
        for place in mine:
            if not place.has_settings:
                # Settings that find all leftovers of a check on another machine: types and disks
                # concern only new hosts.
                zone, types = listed_zones(aws.client("ec2"))[0], list(DEFAULT_INSTANCE_TYPES)
                as_made = Account(workspace, zone=zone, instance_types=types)
                place.write_settings(as_made.settings(place.name, until=place.until))
            taken = place.taken_over()
            with taken.alone():
                loaded = type(workspace).load(taken.folder, progress=progress)
                for step in removal_steps(taken, loaded):
                    step.run(result)
        return None

    return Step("earlier", "leftovers of earlier checks are removed", remove)


# ---- removing identities from reports ------------------------------------------------------------


FORMAT = 1

#: A number of an AWS account, also in the middle of an ARN or a bucket's name.
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
#: The name of a user or a session, after the kind of principal.
_PRINCIPAL = re.compile(r"(:(?:user|assumed-role|federated-user)/)[^\s\"']+")
#: A person's folder on this machine.
_HOME = re.compile(r"(/(?:home|Users)/)[^/\s\"']+")
_ADDRESS = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}/32")


def without_identity(text: str) -> str:
    """Return a text without account numbers, names of callers and their addresses."""
    text = _HOME.sub(r"\1<name>", _PRINCIPAL.sub(r"\1<name>", text))
    return _ADDRESS.sub("<address>/32", _ACCOUNT.sub("<account>", text))


# ---- the time limit of costly steps: it interrupts the main thread -------------------------------


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[Callable[[], object]]:
    """Interrupt the main thread after some seconds, unless the yielded function was called; other
    threads have no limit.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TimeIsOver(seconds)

    def lift() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield lift
    finally:
        lift()
        signal.signal(signal.SIGALRM, before)
