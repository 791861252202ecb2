"""Collect a cluster object's live view, and draw it with a widget while the object is open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from distributed.core import Status

from terradask._clusters.deployment import Deployment
from terradask._clusters.planned_hosts import planned_hourly_usd
from terradask._common.clock import age_text, utc_text
from terradask._common.dollars import shown_usd
from terradask._common.naming import counted
from terradask._common.progress import (
    LaunchPlanned,
    Message,
    PlannedHosts,
    ProgressEvent,
    Warned,
    is_interruption,
)
from terradask._dask import commands
from terradask._dask.arguments import ClusterArguments
from terradask._dask.attached import Attached
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers, host_of, is_extra
from terradask._dask.lifecycle import priced_instances_of
from terradask._dask.progress import describe
from terradask._dask.threads import cancelled
from terradask._dask.widgets import ClusterWidget, LastLine, OwnWidget, default_widget, own_widget
from terradask._observe import shortfall
from terradask._observe.live_view import GroupRow, JoinedWorker, LiveView, Price, Use, live_view
from terradask._observe.logs.console_link import console_link
from terradask._observe.making import CUT_SHORT, Making
from terradask._observe.spent import SpentSoFar
from terradask._observe.status import DeploymentStatus
from terradask.errors import ClusterStopped, InvalidInput, VersionMismatch
from terradask_host.commands import ReadUse
from terradask_host.documents import HostReport
from terradask_host.gauges import number
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._aws.session import Aws

logger = logging.getLogger("terradask")

_INTERVAL_SECONDS = 1.0
#: Interval of reading what workers use, as they send it.
_USE_SECONDS = 5.0
_OLD_USE_SECONDS = 20.0
#: Longest wait for the last of it.
_LAST_USE_SECONDS = 2.0
#: Reading the price takes separate calls.
_PRICE_SECONDS = 60.0


@dataclass(eq=False, repr=False)
class LiveCluster:
    """A cluster object's live view, and the widget that draws it."""

    name: str
    widget: ClusterWidget | None
    health: Health
    joined: JoinedWorkers
    #: Whether the widget draws while the cluster is open, and not only during its creation.
    is_lasting: bool
    #: Prints the last line of a cluster whose widget isn't lasting.
    last_line: LastLine | None = None
    _making: Making | None = field(default_factory=Making)
    _state: str = "connecting"
    _step: str | None = None
    _notes: list[str] = field(default_factory=list)
    _last: str | None = None
    _aws: Aws | None = None
    _planned: tuple[GroupRow, ...] = ()
    _planned_usd: Decimal | None = None
    _starting: tuple[Deployment, DeploymentStatus] | None = None
    _attached: Attached | None = None
    _use: Use | None = None
    _reads_use: bool = True
    _following: asyncio.Task[None] | None = None
    #: Instance id -> time of its first joined worker; empty for hosts before this object.
    _since: dict[str, str] = field(default_factory=dict)
    _spent: SpentSoFar = field(default_factory=SpentSoFar)
    #: When the price and the use were read last, on the monotonic clock.
    _priced_at: float = -_PRICE_SECONDS
    _used_at: float = -_USE_SECONDS
    _most_hosts: int = 0
    _drawing: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_drawn(self) -> bool:
        """Whether a widget draws it."""
        return self.widget is not None

    # ---- during creation -------------------------------------------------------------------------

    def find(self, deployment: Deployment) -> None:
        """Use a deployment's AWS, for prices."""
        self._aws = deployment.aws

    def __call__(self, event: ProgressEvent, /) -> None:
        """Show a progress event."""
        if self._making is not None:
            self._making(event)
        if isinstance(event, LaunchPlanned):
            self._plan(event.hosts)
            self._draw()
        text = describe(event)
        if text is None:
            return
        if isinstance(event, Warned) or (isinstance(event, Message) and event.kept):
            self._notes.append(text)
        else:
            self._step = text
        self._draw()

    def _plan(self, hosts: Sequence[PlannedHosts]) -> None:
        self._planned = tuple(
            GroupRow(
                each.group,
                each.number,
                0,
                each.market,
                each.instance_types,
                {"planned": each.number} if each.number else {},
            )
            for each in hosts
        )
        if self.widget is not None and self._aws is not None:
            # Prices may take seconds, which nothing waits for.
            work = threading.Thread(target=self._price_plan, args=(self._aws, hosts), daemon=True)
            with contextlib.suppress(RuntimeError):
                work.start()

    def _price_plan(self, aws: Aws, hosts: Sequence[PlannedHosts]) -> None:
        try:
            self._planned_usd = planned_hourly_usd(aws, hosts)
        except Exception:
            logger.debug("cluster %s: can't read prices", self.name, exc_info=True)

    def show_status(self, deployment: Deployment, status: DeploymentStatus) -> None:
        """Show the status of a starting cluster."""
        self._starting = deployment, status
        if self._making is not None:
            self._making.note_scheduler(
                host.state for host in status.hosts if host.role == "scheduler"
            )
        self._draw()

    @contextlib.contextmanager
    def drawn_during_creation(self) -> Iterator[None]:
        """Close the widget at the end of the block, unless it is lasting; always after an error."""
        over = threading.Event()
        ticks = threading.Thread(target=self._tick, args=(over,), daemon=True)
        if isinstance(self.widget, OwnWidget):
            ticks.start()
        try:
            yield
        except BaseException as error:
            over.set()
            if self._making is not None:
                self._making.fail(interrupted=is_interruption(error))
            self.close("interrupted" if is_interruption(error) else "failed")
            raise
        finally:
            over.set()
            if ticks.is_alive():
                ticks.join(_INTERVAL_SECONDS)
        self._finish_making()

    def _tick(self, over: threading.Event) -> None:
        """Draw the time that passes."""
        while not over.wait(_INTERVAL_SECONDS):
            self._draw()

    def _finish_making(self) -> None:
        if self._making is not None and self.widget is not None and self._attached is not None:
            # Counts the workers once more.
            self.view()
            self._making.finish()
            self._draw()
        self._making = self._step = None
        if self.is_lasting:
            self._draw()
        else:
            self.close(None)

    # ---- while open ------------------------------------------------------------------------------

    def follow(self, attached: Attached) -> None:
        """Draw the attached cluster repeatedly, if there is a widget."""
        self._since = dict.fromkeys(self.joined.hosts, "")
        self._attached = attached
        if self._making is not None:
            self._making.begin("workers")
        if self.widget is not None:
            self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while self.widget is not None and self._attached is not None:
            try:
                await self._attached.waiter.read_missing()
                await self._read_use(self._attached)
                await self._price(self._attached)
            except InterruptedError:
                return
            except Exception:
                # Draw the view without it.
                logger.debug("cluster %s: can't read what is shown", self.name, exc_info=True)
            self._draw()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _read_use(self, attached: Attached) -> None:
        """Read what workers use, as long as the scheduler's host knows the command."""
        now = time.monotonic()
        if not self._reads_use or now < self._used_at + _USE_SECONDS:
            return
        self._used_at = now
        try:
            answer = await commands.send(attached.connection.scheduler, self.name, ReadUse())
            self._use = use_of(answer)
        except VersionMismatch:
            # The hosts run an older terradask.
            self._reads_use = False

    async def _price(self, attached: Attached) -> None:
        now = time.monotonic()
        if now < self._priced_at + _PRICE_SECONDS:
            return
        self._priced_at = now
        async with attached.deployment.limiter.async_slot():
            found = await attached.pool.call(priced_instances_of, attached.provisioned)
        self._spent.observe(found, datetime.now(UTC))

    async def read_last(self) -> None:
        """Read once more what the cluster did and costs, before its end."""
        if self._attached is None or (self.widget is None and self.last_line is None):
            return
        self._most_hosts = max(self._most_hosts, len(self.joined.hosts))
        self._used_at, self._priced_at = -_USE_SECONDS, -_PRICE_SECONDS
        try:
            async with asyncio.timeout(_LAST_USE_SECONDS):
                await asyncio.gather(self._read_use(self._attached), self._price(self._attached))
        except Exception:
            logger.debug("cluster %s: can't read its last tasks", self.name, exc_info=True)

    async def stop(self) -> None:
        """Stop the repeated drawing."""
        await cancelled(self._following)

    def close(self, state: str | None, ended: str = "") -> None:
        """Draw the last view in a final state, and close the widget; `ended` is how it ended."""
        if self._attached is not None and state is not None:
            self._last = self._last_line(state, ended)
            if self.widget is None and self.last_line is not None:
                with self._widget_errors_logged():
                    self.last_line(self._last)
        widget = self.widget
        if widget is None:
            return
        if state is not None:
            self._state, self._attached, self._starting = state, None, None
            self._draw()
        self.widget = None
        closing = getattr(widget, "close", None)
        if callable(closing):
            with self._widget_errors_logged():
                closing()

    def _last_line(self, state: str, ended: str) -> str:
        """Return what the attached cluster did and cost."""
        view, use = self._known_view(), self._use
        if state == "left running" and self._notes:
            return self._notes[-1]
        age = "" if view.seconds is None else f" after {age_text(view.seconds)}"
        did = [f"{use.done:,} tasks"] if use is not None and use.done else []
        if self._most_hosts:
            did.append(f"up to {counted(self._most_hosts, 'host')} of workers")
        if (cost := self._cost(view)) is not None:
            did.append(cost)
        return f"{self.name}: {'; '.join(filter(None, [state + age, *did, ended]))}"

    def _cost(self, view: LiveView) -> str | None:
        price = view.price
        if price is not None and price.spent_usd is not None:
            sure = "" if self.is_lasting else "about "
            return f"{sure if price.is_whole else 'at least '}{shown_usd(price.spent_usd)}"
        if self._planned_usd is None or view.seconds is None:
            return None
        return f"about {shown_usd(self._planned_usd * Decimal(round(view.seconds)) / 3600)}"

    # ---- the view --------------------------------------------------------------------------------

    def view(self) -> LiveView:
        """Return the current view, without any call."""
        view = replace(self._known_view(), step=self._step, notes=tuple(self._notes))
        if self._last is not None:
            return replace(view, last=self._last)
        if self._making is None:
            return view
        if self._attached is not None:
            workers = [group for group in view.groups if group.name != SCHEDULER_GROUP]
            joined = sum(group.states.get("running", 0) for group in workers)
            self._making.count("workers", joined, sum(group.desired for group in workers))
        # Known once the first step has begun.
        state = view.state if view.state in CUT_SHORT else self._making.state or view.state
        return replace(view, state=state, steps=self._making.steps)

    def _known_view(self) -> LiveView:
        now = datetime.now(UTC)
        if self._attached is not None:
            # Without a widget, join times were not observed.
            now_text = utc_text() if self.widget is not None else ""
            hosts = self.joined.hosts
            self._most_hosts = max(self._most_hosts, len(hosts))
            for host in hosts - self._since.keys():
                self._since[host] = now_text
            view = attached_view(
                self._attached,
                self.joined,
                self._since,
                now=now,
                price=self._price_now(now, self._attached.provisioned.origin != "attached"),
                use=self._use_now(),
                types=self._spent.types,
            )
            return replace(view, state=self._state_of(view))
        price = self._price_now(now, is_whole=True)
        if self._starting is not None:
            deployment, status = self._starting
            return live_view(status, deployment.descriptor.pools, now=now, price=price)
        return LiveView(self.name, self._state, groups=self._planned, price=price, at=now)

    def _use_now(self) -> Use | None:
        """Return what workers use, unless that is long ago."""
        is_old = self.widget is None or time.monotonic() > self._used_at + _OLD_USE_SECONDS
        return None if is_old else self._use

    def _price_now(self, now: datetime, is_whole: bool) -> Price:
        return Price(self._spent.hourly_usd, self._spent.usd(now), is_whole, self._planned_usd)

    def _state_of(self, view: LiveView) -> str:
        if self.health.ended is not None:
            return "stopped" if type(self.health.ended) is ClusterStopped else "ended"
        if self.health.unreachable is not None:
            return "unreachable"
        return "stopping" if self.health.status == Status.closing else view.state

    def _draw(self) -> None:
        with self._drawing:
            widget = self.widget
            if widget is None:
                return
            with self._widget_errors_logged():
                widget.update(self.view())

    @contextlib.contextmanager
    def _widget_errors_logged(self) -> Iterator[None]:
        """Log an error of the widget and drop it: the cluster continues."""
        try:
            yield
        except Exception:
            self.widget = self.last_line = None
            logger.warning("cluster %s: its widget failed", self.name, exc_info=True)


def use_of(answer: Mapping[str, Any]) -> Use:
    """Return the answer to `ReadUse`, of which tasks can write any part."""
    seconds = ("idle_timeout_seconds", "no_client_timeout_seconds")
    idle, alone = (None if answer[each] is None else number(answer[each]) for each in seconds)
    return Use(
        {str(host): (number(busy), number(used)) for host, (busy, used) in answer["hosts"].items()},
        {str(state): int(number(count)) for state, count in answer["tasks"].items()},
        int(number(answer["done"])),
        number(answer["idle_seconds"]),
        idle,
        alone,
    )


def attached_view(
    attached: Attached,
    joined: JoinedWorkers,
    since: Mapping[str, str],
    *,
    now: datetime,
    price: Price,
    use: Use | None,
    types: Mapping[str, str],
) -> LiveView:
    """Return an attached cluster's view; `since` maps hosts to the time of their first worker,
    `types` to their instance types.
    """
    deployment, run = attached.deployment, attached.connection.attachment.run
    short, pools = attached.pool.shortfall, deployment.descriptor.pools
    return live_view(
        _status(attached, joined, since, types),
        pools,
        now=now,
        run=run,
        price=price,
        workers=list(_workers(joined)),
        waits=() if short is None else (shortfall.describe(short, pools),),
        links=list(_links(attached)),
        use=use,
    )


def _links(attached: Attached) -> Iterator[tuple[str, str]]:
    """Yield labels and addresses. That of the dashboard contains a token."""
    yield "dashboard", attached.dashboard.link
    if attached.jupyter is not None:
        yield "notebooks", attached.jupyter.link
    workspace = attached.provisioned.workspace.settings.workspace.name
    logs = console_link(attached.deployment.descriptor.region, workspace)
    if logs is not None:
        yield "logs in CloudWatch", logs


def _status(
    attached: Attached, joined: JoinedWorkers, since: Mapping[str, str], types: Mapping[str, str]
) -> DeploymentStatus:
    attachment, groups = attached.connection.attachment, attached.pool.described
    run_id, scheduler = attachment.run.run_id, attachment.scheduler
    hosts, at = joined.hosts, scheduler.started_at or ""
    reports = [
        HostReport(scheduler.instance_id, "scheduler", "scheduler", "running", None, at, run_id),
        *(
            HostReport(host, "worker", name, "running", None, since.get(host, ""), run_id)
            for name, group in groups.items()
            for host in group.active_ids
            if host in hosts
        ),
        *(
            each
            for each in attached.waiter.reports
            if each.role == "worker" and each.instance_id not in hosts
        ),
    ]
    reports = [
        replace(each, instance_type=each.instance_type or types.get(each.instance_id))
        for each in reports
    ]
    status = attached.deployment.status_with(groups, attachment.run, scheduler, reports)
    return replace(status, state="running", adapting=attached.policies.known or {})


def _workers(joined: JoinedWorkers) -> Iterator[JoinedWorker]:
    for worker in joined.workers:
        name = str(worker["name"])
        host = "" if is_extra(name) else host_of(name)
        yield JoinedWorker(host, worker["nthreads"], worker["memory_limit"] or 0)


def _custom_widget(given: ClusterWidget | bool | None) -> ClusterWidget | None:
    """Return the widget of the argument ``custom_widget``. Raises `InvalidInput`."""
    if given is None or given is False:
        return None
    if given is True:
        return own_widget()
    if not callable(getattr(given, "update", None)):
        raise InvalidInput(
            "custom_widget can't draw: it has no method `update`.",
            given=given,
            allowed="an object with `update(view)`; True, for the terminal's view anywhere",
            advice="leave it out: terminals and notebooks draw by themselves",
        )
    return given


def live_cluster(
    arguments: ClusterArguments, name: str, health: Health, joined: JoinedWorkers
) -> LiveCluster:
    """Return the live view of a cluster object with the widget that its arguments ask for."""
    widget = _custom_widget(arguments.custom_widget)
    if widget is None and arguments.show_widget and not arguments.asynchronous:
        try:
            widget = default_widget()
        except Exception:
            logger.warning("cluster %s: can't show a live view", name, exc_info=True)
    last_line: Callable[[str], None] | None = None
    if isinstance(widget, OwnWidget) and not widget.is_lasting:
        last_line = widget.last_line
    lasting = last_line is None
    return LiveCluster(name, widget, health, joined, is_lasting=lasting, last_line=last_line)
