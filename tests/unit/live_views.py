"""Views of one cluster: while it is made, with one, twenty and a thousand hosts, and at its end."""

from __future__ import annotations

import datetime
import io
from dataclasses import replace
from decimal import Decimal

from rich.console import Console

from terradask._observe.live_drawing import Drawing
from terradask._observe.live_view import GroupRow, JoinedWorker, LiveView, Price, Use, live_view
from terradask._observe.making import Step
from terradask._observe.shortfall import Pool
from terradask._observe.status import DeploymentStatus
from terradask._observe.verdict import Verdict
from terradask_host.documents import HostReport, LifetimePolicy, Run

NOW = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
GIB = 2**30
POOLS = {
    "scheduler": Pool(("us-east-1a",), "on-demand", ("m6i.large",)),
    "workers-spot": Pool(("us-east-1a",), "spot", ("m6i.xlarge", "m5.xlarge")),
    "workers": Pool(("us-east-1a",), "on-demand", ("m6i.xlarge", "m5.xlarge")),
}
RUN = Run(
    *("r1", "2026-11-24T09:17:30Z", "arn:aws:sts::123456789012:user/ana", "v1", "3.11"),
    {"dask": "2026.7.1", "pandas": "3.1.1"},
    2,
    life=LifetimePolicy(no_client_timeout_seconds=120),
    hashed=True,
)
LINKS = (
    ("dashboard", "http://127.0.0.1:40555/_tfzIKZc3gr3f0rsbOwUtQ/status"),
    (
        "logs in CloudWatch",
        "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#logsV2:"
        "log-groups/log-group/$252Fterradask$252Fdefault",
    ),
)


def report(number: int, state: str, reason: str | None = None) -> HostReport:
    at = "2026-11-24T09:29:18Z"
    name = f"i-{0x5EED << 48 | number * 0x9E3779B1:017x}"
    host = HostReport(name, "worker", "workers-spot", state, reason, at, "r1")
    return replace(host, instance_type="m5.xlarge" if number % 5 == 0 else "m6i.xlarge")


def status(desired: int, instances: int, *hosts: HostReport) -> DeploymentStatus:
    scheduler = HostReport(
        *("i-0f5c590567ad6c9c9", "scheduler", "scheduler", "running", None),
        "2026-11-24T09:18:00Z",
        "r1",
    )
    groups = {
        "scheduler": {"desired": 1, "instances": 1, "max_size": 1},
        "workers-spot": {"desired": desired, "instances": instances, "max_size": 2_000},
        "workers": {"desired": 0, "instances": 0, "max_size": 2_000},
    }
    return DeploymentStatus(
        *("etl", "running", "r1", RUN.owner, RUN.started_at),
        "tls://10.64.0.5:8786",
        groups,
        (scheduler, *hosts),
        2_000,
    )


def running(desired: int, states: list[tuple[str, str | None]], *problems: str) -> LiveView:
    """Return the view of an attached cluster whose hosts have these states and reasons."""
    hosts = [report(number, *each) for number, each in enumerate(states, 1)]
    up = [each.instance_id for each in hosts if each.state == "running"]
    use = Use(
        {host: (3.7 - at % 3, (3 + at % 9) * GIB) for at, host in enumerate(up)},
        {"tasks_processing": 4 * len(up), "tasks_queued": 1_291, "tasks_erred": 2},
        12_804,
        *(0.0, 1_200.0, 120.0),
    )
    short = "2 of 20: no capacity in us-east-1a since 09:24"
    verdict = Verdict("trouble", short, "terradask explain etl") if problems else None
    return live_view(
        replace(status(desired, len(hosts), *hosts), problems=problems, verdict=verdict),
        POOLS,
        now=NOW,
        run=RUN,
        price=Price(Decimal("0.0960") + Decimal("0.2015") * len(hosts), Decimal("0.1645")),
        workers=[JoinedWorker(host, 4, int(15.52 * GIB)) for host in up],
        links=LINKS,
        use=use,
    )


def steps(now: str, detail: str | None = None, share: float = 0.0) -> tuple[Step, ...]:
    names = ("hardware", "plan", "apply", "start", "scheduler", "workers")
    seconds = (3.8, 9.2, 41.0, 2.1, 74.0, 12.0)
    at = names.index(now)
    return (
        *(Step(name, "done", seconds[n], 1.0) for n, name in enumerate(names[:at])),
        Step(now, "now", 12.0, share, detail),
        *(Step(name, "next") for name in names[at + 1 :]),
    )


PLANNED = tuple(
    GroupRow(name, n, 0, pool.market, pool.instance_types, {"planned": n} if n else {})
    for (name, pool), n in zip(POOLS.items(), (1, 20, 0), strict=True)
)
MAKING = LiveView(
    "etl",
    "making",
    groups=PLANNED,
    step="etl: 41/55 aws_autoscaling_group.workers_spot",
    price=Price(planned_hourly_usd=Decimal("3.91")),
    steps=steps("apply", "41 of 55", 41 / 55),
    notes=("hosts get 28 packages in the versions of this environment",),
)
NO_CAPACITY = (
    "workers-spot: AWS launches 2 fewer than requested: no capacity in us-east-1a since 09:24; "
    "more instance types or another zone help"
)
NO_WHEEL = "no wheel of torch 2.9 for hosts: their glibc 2.34 is older than 2.35"

VIEWS = {
    "connecting": LiveView("etl", "connecting"),
    "making": MAKING,
    "attaching": LiveView(
        "etl",
        "attaching",
        step="etl: waiting for the scheduler",
        steps=(Step("scheduler", "now", 2.0), Step("workers", "next")),
    ),
    "failed": replace(
        MAKING,
        state="failed",
        step="etl: apply failed",
        steps=tuple(
            replace(step, state="failed") if step.state == "now" else step for step in MAKING.steps
        ),
    ),
    "one": running(1, [("running", None)]),
    "twenty": running(
        20,
        [
            *[("running", None)] * 14,
            ("environment", None),
            ("booting", None),
            ("starting", None),
            ("failed", NO_WHEEL),
        ],
        NO_CAPACITY,
    ),
    "thousand": running(
        1_000,
        [
            *[("running", None)] * 963,
            *[("environment", None)] * 20,
            *[("failed", "the disk is full")] * 3,
        ],
    ),
    "closed": LiveView(
        "etl",
        "closed",
        last="etl: closed after 12 min 30 s; 12,804 tasks; up to 20 hosts of workers; $0.16; its "
        "deployment is destroyed",
    ),
}


def drawn(
    view: LiveView,
    *,
    columns: int = 200,
    lines: int = 50,
    color: bool = False,
    encoding: str = "utf-8",
) -> str:
    """Return what a terminal gets, without the spaces at the ends of lines."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(
        file=stream,
        force_terminal=True,
        color_system="truecolor" if color else None,
        width=columns,
        height=lines,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(Drawing(view))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
