"""Collect a cluster object's live view, and draw it with a widget while the object is open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal

from distributed.core import Status

from terradask._clusters.deployment import Deployment
from terradask._common.clock import utc_text
from terradask._common.progress import Message, ProgressEvent, Warned, is_interruption
from terradask._dask.arguments import ClusterArguments
from terradask._dask.attached import Attached
from terradask._dask.health import Health
from terradask._dask.host_workers import JoinedWorkers, host_of, is_extra
from terradask._dask.lifecycle import hourly_usd
from terradask._dask.progress import describe
from terradask._dask.threads import cancelled
from terradask._dask.widgets import ClusterWidget, TerminalWidget, default_widget, terminal_widget
from terradask._observe import shortfall
from terradask._observe.live_view import JoinedWorker, LiveView, live_view
from terradask._observe.status import DeploymentStatus
from terradask.errors import ClusterStopped, InvalidInput
from terradask_host.documents import HostReport

logger = logging.getLogger("terradask")

_INTERVAL_SECONDS = 1.0
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
    _state: str = "making"
    _step: str | None = None
    _notes: list[str] = field(default_factory=list)
    _starting: tuple[Deployment, DeploymentStatus] | None = None
    _attached: Attached | None = None
    _following: asyncio.Task[None] | None = None
    #: Instance id -> time of its first joined worker; empty for hosts before this object.
    _since: dict[str, str] = field(default_factory=dict)
    _hourly_usd: Decimal | None = None
    _priced_at: float | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether a widget draws it."""
        return self.widget is not None

    # ---- during creation -------------------------------------------------------------------------

    def __call__(self, event: ProgressEvent, /) -> None:
        """Show a progress event."""
        text = describe(event)
        if text is None:
            return
        if isinstance(event, Warned) or (isinstance(event, Message) and event.kept):
            self._notes.append(text)
        else:
            self._step = text
        self._draw()

    def show_status(self, deployment: Deployment, status: DeploymentStatus) -> None:
        """Show the status of a starting cluster."""
        self._starting = deployment, status
        self._draw()

    @contextlib.contextmanager
    def drawn_during_creation(self) -> Iterator[None]:
        """Close the widget at the end of the block, unless it is lasting; always after an error."""
        try:
            yield
        except BaseException as error:
            self.close("interrupted" if is_interruption(error) else "failed")
            raise
        self._step = None
        if not self.is_lasting:
            self.close(None)

    # ---- while open ------------------------------------------------------------------------------

    def follow(self, attached: Attached) -> None:
        """Draw the attached cluster repeatedly, if there is a widget."""
        self._since = dict.fromkeys(self.joined.hosts, "")
        self._attached = attached
        if self.widget is not None:
            self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while self.widget is not None and self._attached is not None:
            try:
                await self._attached.waiter.read_missing()
                await self._price(self._attached)
            except InterruptedError:
                return
            except Exception:
                # Draw the view without it.
                logger.debug("cluster %s: can't read what is shown", self.name, exc_info=True)
            self._draw()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _price(self, attached: Attached) -> None:
        now = time.monotonic()
        if self._priced_at is not None and now < self._priced_at + _PRICE_SECONDS:
            return
        self._priced_at = now
        deployment = attached.deployment
        async with deployment.limiter.async_slot():
            self._hourly_usd = await attached.pool.call(hourly_usd, attached.provisioned)

    async def stop(self) -> None:
        """Stop the repeated drawing."""
        await cancelled(self._following)

    def close(self, state: str | None) -> None:
        """Draw the last view in a final state, and close the widget."""
        widget = self.widget
        if widget is None:
            return
        if state is not None:
            self._state, self._step, self._attached, self._starting = state, None, None, None
            self._draw()
        self.widget = None
        closing = getattr(widget, "close", None)
        if callable(closing):
            with self._widget_errors_logged():
                closing()

    # ---- the view --------------------------------------------------------------------------------

    def view(self) -> LiveView:
        """Return the current view, without any call."""
        return replace(self._known_view(), step=self._step, notes=tuple(self._notes))

    def _known_view(self) -> LiveView:
        now = datetime.now(UTC)
        if self._attached is not None:
            # Without a widget, join times were not observed.
            now_text = utc_text() if self.widget is not None else ""
            for host in self.joined.hosts - self._since.keys():
                self._since[host] = now_text
            view = attached_view(
                self._attached, self.joined, self._since, now=now, hourly_usd=self._hourly_usd
            )
            return replace(view, state=self._state_of(view))
        if self._starting is not None:
            deployment, status = self._starting
            return live_view(status, deployment.descriptor.pools, now=now)
        return LiveView(self.name, self._state)

    def _state_of(self, view: LiveView) -> str:
        if self.health.ended is not None:
            return "stopped" if type(self.health.ended) is ClusterStopped else "ended"
        if self.health.unreachable is not None:
            return "unreachable"
        return "closing" if self.health.status == Status.closing else view.state

    def _draw(self) -> None:
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
            self.widget = None
            logger.warning("cluster %s: its widget failed", self.name, exc_info=True)


def _custom_widget(given: ClusterWidget | bool | None) -> ClusterWidget | None:
    """Return the widget of the argument ``custom_widget``. Raises `InvalidInput`."""
    if given is None or given is False:
        return None
    if given is True:
        return terminal_widget()
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
    lasting = not isinstance(widget, TerminalWidget)
    return LiveCluster(name, widget, health, joined, is_lasting=lasting)


# ---- the view of an attached cluster, from the data of its parts ---------------------------------


def attached_view(
    attached: Attached,
    joined: JoinedWorkers,
    since: Mapping[str, str],
    *,
    now: datetime,
    hourly_usd: Decimal | None,
) -> LiveView:
    """Return an attached cluster's view; `since` maps hosts to the time of their first worker."""
    deployment, run = attached.deployment, attached.connection.attachment.run
    short, pools = attached.pool.shortfall, deployment.descriptor.pools
    return live_view(
        _status(attached, joined, since),
        pools,
        now=now,
        run=run,
        hourly_usd=hourly_usd,
        workers=list(_workers(joined)),
        waits=() if short is None else (shortfall.describe(short, pools),),
        dashboard_link=attached.dashboard.link,
    )


def _status(
    attached: Attached, joined: JoinedWorkers, since: Mapping[str, str]
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
    status = attached.deployment.status_with(groups, attachment.run, scheduler, reports)
    return replace(status, state="running", adapting=attached.policies.known or {})


def _workers(joined: JoinedWorkers) -> Iterator[JoinedWorker]:
    for worker in joined.workers:
        name = str(worker["name"])
        host = "" if is_extra(name) else host_of(name)
        yield JoinedWorker(host, worker["nthreads"], worker["memory_limit"] or 0)
