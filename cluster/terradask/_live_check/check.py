"""The account check: the steps put together, in the order free, network, IAM, cluster, removal."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._common.clock import utc_text
from terradask._common.progress import Progress, silent
from terradask._live_check.account import Account
from terradask._live_check.cluster import ClusterLife
from terradask._live_check.earlier import EarlierChecks
from terradask._live_check.network import Network, UserRole
from terradask._live_check.place import SmokeWorkspace, base_folder
from terradask._live_check.removal import Removal
from terradask._live_check.report import LiveReport
from terradask._live_check.runner import Runner
from terradask._live_check.smoke_settings import LIMIT_SECONDS, smoke_settings
from terradask._live_check.steps import Step
from terradask._live_check.time_limit import time_limit
from terradask._terraform import provider_mirror
from terradask._workspace.host_packages import packages_folder

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
