"""Connect to the scheduler of a run or its replacement, or raise an error with checks to do."""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from distributed.comm import Comm, connect
from distributed.core import rpc
from distributed.security import Security

from terradask._aws.group_limits import WATCHDOG_MINUTES
from terradask._aws.session import Aws
from terradask._aws.ssm.forwarding import PortForwarding
from terradask._aws.ssm.plugin import find_plugin
from terradask._aws.translation import CLOCK_ADVICE
from terradask._clusters.attach import Attachment
from terradask._clusters.deployment import Deployment
from terradask._common.clock import utc_text
from terradask._dask.connectivity import allowed_sources
from terradask._dask.threads import Call
from terradask._observe.documents import of_run
from terradask._observe.record import read_scheduler
from terradask.errors import SchedulerUnreachable
from terradask_host.preload.closed_streams import expect_closed_streams
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._dask.provision import Provisioned

logger = logging.getLogger("terradask")

#: A scheduler that doesn't answer for this time is unreachable, or gone with its host.
REACH_SECONDS = 60.0


Route = Literal["public", "private", "ssm"]

LOOPBACK = "127.0.0.1"

_OPEN_SECONDS = 30.0


class AddressEndpoint:
    """The scheduler's own address, behind mutual TLS."""

    def __init__(self, route: Literal["public", "private"]) -> None:
        self.route: Route = route

    def scheduler(self, attachment: Attachment) -> str:
        """Return the address to dial, such as ``tls://203.0.113.7:8786``. Raises `InvalidInput`."""
        return attachment.address(public=self.route == "public")

    def dashboard(self, attachment: Attachment) -> tuple[str, int]:
        """Return host and port of the dashboard's endpoint, which requires a client certificate."""
        host = self.scheduler(attachment).partition("://")[2].rpartition(":")[0]
        return host, attachment.scheduler.dashboard_port

    def close(self) -> None:
        """Do nothing: an address has nothing to release."""


class SessionEndpoint:
    """Sessions to both ports of the scheduler's host, or of its replacement.

    Permissions needed: those of `PortForwarding`.
    """

    route: Route = "ssm"

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._instance_id: str | None = None
        self._open: dict[int, PortForwarding] = {}
        self._changing = threading.Lock()
        self._closed = False

    def scheduler(self, attachment: Attachment) -> str:
        """Return the local address of the scheduler. Raises `SchedulerUnreachable`."""
        scheme, _, rest = attachment.scheduler.private_address.partition("://")
        return f"{scheme}://{LOOPBACK}:{self._local_port(attachment, int(rest.rpartition(':')[2]))}"

    def dashboard(self, attachment: Attachment) -> tuple[str, int]:
        """Return the local host and port of the dashboard's endpoint; raises as `scheduler`."""
        return LOOPBACK, self._local_port(attachment, attachment.scheduler.dashboard_port)

    def close(self) -> None:
        """End the sessions and their processes."""
        self._closed = True
        # Outside of the lock: a thread that waits for a session to open holds it.
        for forwarding in list(self._open.values()):
            forwarding.close()
        with self._changing:
            self._end()

    def _local_port(self, attachment: Attachment, port: int) -> int:
        scheduler = attachment.scheduler
        with self._changing:
            if self._closed:
                raise ConnectionAbortedError("the route to the scheduler is closed")
            if self._instance_id != scheduler.instance_id or port not in self._open:
                self._end()
                self._begin(attachment)
            try:
                return self._open[port].wait(_OPEN_SECONDS)
            except BaseException:
                # The next attempt starts new sessions.
                self._end()
                raise

    def _begin(self, attachment: Attachment) -> None:
        scheduler, plugin = attachment.scheduler, find_plugin()
        ports = (int(scheduler.private_address.rpartition(":")[2]), scheduler.dashboard_port)
        self._instance_id = scheduler.instance_id
        self._open = {
            port: PortForwarding(self._aws, plugin, instance_id=scheduler.instance_id, port=port)
            for port in ports
        }
        for forwarding in self._open.values():
            forwarding.open()

    def _end(self) -> None:
        for forwarding in self._open.values():
            forwarding.close()
        self._open, self._instance_id = {}, None


#: The addresses of a scheduler and its dashboard. All methods may block.
Endpoint = AddressEndpoint | SessionEndpoint


def endpoint_for(route: Route, aws: Aws) -> Endpoint:
    """Return the endpoint for a route."""
    return SessionEndpoint(aws) if route == "ssm" else AddressEndpoint(route)


@dataclass(eq=False, repr=False)
class Dialer:
    """Dial a deployment's scheduler, or its replacement."""

    deployment: Deployment
    endpoint: Endpoint
    security: Security
    call: Call
    _: KW_ONLY
    allowed_sources: Callable[[], Sequence[str]]
    try_seconds: float = 15.0
    pause_seconds: float = 2.0

    def __post_init__(self) -> None:
        expect_closed_streams()

    @property
    def route(self) -> Route:
        """The route to the scheduler."""
        return self.endpoint.route

    @property
    def connection_args(self) -> dict[str, Any]:
        """Dask's arguments for a connection with the client's certificate."""
        arguments: dict[str, Any] = self.security.get_connection_args("client")
        return arguments

    async def reach(
        self, attachment: Attachment, seconds: float = REACH_SECONDS
    ) -> tuple[Attachment, Comm]:
        """Connect to an attachment's scheduler or its replacement; return that scheduler's
        attachment and the connection.

        Raises `SchedulerUnreachable`, `SetupError`, `ClusterStopped`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            address = attachment.scheduler.private_address
            try:
                address = await self.call(self.endpoint.scheduler, attachment)
                comm = await connect(
                    address,
                    timeout=min(self.try_seconds, seconds),
                    deserialize=False,
                    **self.connection_args,
                )
            except OSError as error:
                if (clocks := self._clocks(attachment, error)) is not None:
                    raise out_of_time(attachment, address, clocks) from error
                if loop.time() >= deadline:
                    if isinstance(error, SchedulerUnreachable):
                        raise
                    raise await self.unreachable(attachment, address, error) from error
            else:
                return attachment, comm
            await asyncio.sleep(self.pause_seconds)
            attachment = await self.call(newest, attachment, self.deployment)

    async def why_lost(self, attachment: Attachment, address: str) -> SchedulerUnreachable:
        """Return the error for a lost scheduler; raises ``ClusterStopped`` if the run is over."""
        await self.call(newest, attachment, self.deployment)
        return await self.unreachable(attachment, address)

    async def unanswered(
        self, attachment: Attachment, address: str, since: datetime.datetime
    ) -> SchedulerUnreachable:
        """Return the error for a connected scheduler that doesn't answer any more."""
        host = await self.call(self._scheduler_instances)
        return unanswered(attachment, address, since=since, host=host)

    def _scheduler_instances(self) -> frozenset[str] | None:
        """Return the active instances of the scheduler's group; None if AWS doesn't answer."""
        try:
            group = self.deployment.groups.describe().get(SCHEDULER_GROUP)
        except Exception:
            logger.debug("can't read the groups of %s", self.deployment.name, exc_info=True)
            return None
        return frozenset(() if group is None else group.active_ids)

    async def scheduler_of(self, attachment: Attachment) -> rpc:
        """Return a new connection to the scheduler of an attachment."""
        return self.scheduler_at(await self.call(self.endpoint.scheduler, attachment))

    def scheduler_at(self, address: str) -> rpc:
        """Return a connection to a scheduler. It doesn't unpickle workers' data, which could run
        code.
        """
        return rpc(address, deserialize=False, connection_args=self.connection_args)

    async def dashboard(self, attachment: Attachment) -> tuple[str, int]:
        """Return the dashboard's host and port to dial."""
        found: tuple[str, int] = await self.call(self.endpoint.dashboard, attachment)
        return found

    async def close(self) -> None:
        """Close the route, such as a Session Manager session."""
        await self.call(self.endpoint.close)

    def _clocks(self, attachment: Attachment, error: OSError) -> str | None:
        if tls_error(error) is None:
            return None
        return why_refused(
            error,
            attachment.keys.client.cert,
            ahead_seconds=self.deployment.aws.clock_ahead_seconds,
            here=datetime.datetime.now(datetime.UTC),
        )

    async def unreachable(
        self, attachment: Attachment, address: str, error: OSError | None = None
    ) -> SchedulerUnreachable:
        """Return the error for a scheduler that doesn't answer at an address."""
        if (refused := tls_error(error)) is not None:
            return no_tls(attachment, address, str(refused))
        return unreachable(
            attachment, address, route=self.route, allowed=await self.call(self.allowed_sources)
        )


def dialer_for(provisioned: Provisioned, call: Call) -> Dialer:
    """Return the dialer for a running cluster's scheduler."""
    workspace = provisioned.workspace
    return Dialer(
        provisioned.deployment,
        endpoint_for(provisioned.settings.way, workspace.aws),
        provisioned.attachment.keys.client_security(),
        call,
        allowed_sources=partial(allowed_sources, workspace),
    )


def newest(attachment: Attachment, deployment: Deployment) -> Attachment:
    """Return the attachment to the run's current scheduler. Raises `ClusterStopped`."""
    run, run_id = deployment.run(), attachment.run.run_id
    scheduler = of_run(read_scheduler(deployment.objects), run)
    if run is None or run.run_id != run_id or (scheduler is not None and scheduler.ended):
        raise deployment.why_stopped(run_id)
    return attachment if scheduler is None else replace(attachment, scheduler=scheduler)


def unreachable(
    attachment: Attachment, address: str, *, route: Route, allowed: Sequence[str]
) -> SchedulerUnreachable:
    """Return the error with likely causes for the route."""
    cluster, host = attachment.descriptor.cluster, attachment.scheduler.instance_id
    advice = {
        "public": f"The network allows {', '.join(allowed) or 'no address'}: this machine's "
        "address has to be among them (network.ingress, then: terradask apply network). Inside the "
        "VPC, or over VPN or peering: connect='private'.",
        "private": "Its private address can be reached from inside the VPC, or over VPN or "
        "peering with a route to it; connect='public' dials the public one.",
        "ssm": "A session with Session Manager reaches its host, but the scheduler doesn't answer "
        "there. A host launched by an older terradask can't be reached this way: terradask apply "
        "network, then stop and start the cluster.",
    }[route]
    return SchedulerUnreachable(
        f"The scheduler of cluster {cluster!r} doesn't answer.",
        cluster=cluster,
        address=address,
        given=f"{address}, published by instance {host}",
        advice=f"{advice} To see whether its host runs: terradask status {cluster}",
    )


def unanswered(
    attachment: Attachment,
    address: str,
    *,
    since: datetime.datetime,
    host: frozenset[str] | None,
) -> SchedulerUnreachable:
    """Return the error for a connected scheduler that doesn't answer any more; `host`: the active
    instances of its group, if known.
    """
    cluster, own = attachment.descriptor.cluster, attachment.scheduler.instance_id
    state = "" if host is None else ", running according to AWS" if own in host else ", ending"
    return SchedulerUnreachable(
        f"The scheduler of cluster {cluster!r} hasn't answered since {since:%H:%M:%S} UTC, though "
        "it is connected.",
        cluster=cluster,
        address=address,
        given=f"{address} on instance {own}{state}",
        advice=(
            "its process or its host hangs, or has no memory left, or one call blocks all others; "
            "the connection recovers if that ends. Otherwise AWS ends all hosts within "
            f"{WATCHDOG_MINUTES} minutes of its host's last report, which terradask status "
            f"{cluster} shows. Sooner: terradask stop {cluster}, then terradask start {cluster}"
        ),
    )


def out_of_time(attachment: Attachment, address: str, clocks: str) -> SchedulerUnreachable:
    """Return the error for certificates that are invalid because of a wrong clock."""
    cluster = attachment.descriptor.cluster
    return SchedulerUnreachable(
        f"The scheduler of cluster {cluster!r} answers, but certificates aren't valid now: a clock "
        "is wrong.",
        cluster=cluster,
        address=address,
        given=clocks,
        advice=(
            f"{CLOCK_ADVICE}. If the run was started from a machine whose clock was wrong: "
            f"terradask stop {cluster}, then start it again"
        ),
    )


def no_tls(attachment: Attachment, address: str, reason: str) -> SchedulerUnreachable:
    """Return the error for a reachable scheduler with which TLS fails."""
    cluster = attachment.descriptor.cluster
    return SchedulerUnreachable(
        f"The scheduler of cluster {cluster!r} can be reached, but TLS fails.",
        cluster=cluster,
        address=address,
        given=f"{address}: {reason}",
        advice=(
            "another host, or a proxy that opens TLS, may answer there; terradask status "
            f"{cluster} shows the run, and attaching again reads its keys again"
        ),
    )


# ---- reasons for a failure of TLS: clocks and certificates ---------------------------------------


#: OpenSSL's codes of a certificate outside its validity, and the alerts of a peer that refuses one:
#: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_OUTSIDE_ITS_TIME = frozenset({9, 10})
_ALERTS = ("ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_UNKNOWN")

#: Synchronised clocks differ by less.
_SYNCHRONISED_SECONDS = 60.0


def tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error in an error's chain; None if there is none."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ssl.SSLError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def why_refused(
    error: BaseException, certificate: str, *, ahead_seconds: float, here: datetime.datetime
) -> str | None:
    """Return the explanation of a failed connection by clocks; None if they don't explain it.

    `certificate`: the client's, PEM; all of a run have the same validity. `ahead_seconds`: lead of
    this machine's clock over AWS's, which instances use; `here`: this machine's time.
    """
    found = tls_error(error)
    if found is None or not (
        getattr(found, "verify_code", None) in _OUTSIDE_ITS_TIME
        or any(alert in (found.reason or "") for alert in _ALERTS)
    ):
        return None
    from cryptography import x509

    made = x509.load_pem_x509_certificate(certificate.encode())
    first, last = made.not_valid_before_utc, made.not_valid_after_utc
    at_aws = here - datetime.timedelta(seconds=ahead_seconds)
    clocks = f"it is {utc_text(here)} here, and {utc_text(at_aws)} at AWS"
    if min(here, at_aws) < first:
        return f"the certificates of this run are valid from {utc_text(first)} on, and {clocks}"
    if max(here, at_aws) > last:
        return f"the certificates of this run were valid until {utc_text(last)}, and {clocks}"
    return (
        f"this machine's clock is wrong: {clocks}"
        if abs(ahead_seconds) > _SYNCHRONISED_SECONDS
        else None
    )
