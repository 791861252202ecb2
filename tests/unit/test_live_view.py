"""A cluster as a person watches it: readable with one host, twenty and a thousand."""

from __future__ import annotations

import datetime
import html
import io
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from rich.console import Console

from terradask._observe.live_drawing import Drawing
from terradask._observe.live_view import JoinedWorker, LiveView, live_view
from terradask._observe.shortfall import Pool
from terradask._observe.status import DeploymentStatus
from terradask_host.documents import Ended, HostReport, LifetimePolicy, Run

NOW = datetime.datetime(2026, 11, 24, 9, 30, tzinfo=datetime.UTC)
POOLS = {
    "scheduler": Pool(("us-east-1a",), "on-demand", ("m6i.large",)),
    "workers-spot": Pool(("us-east-1a",), "spot", ("m6i.xlarge", "m5.xlarge")),
    "workers": Pool(("us-east-1a",), "on-demand", ("m6i.xlarge", "m5.xlarge")),
}


def report(number: int, state: str, reason: str | None = None) -> HostReport:
    at = "2026-11-24T09:29:18Z"
    return HostReport(f"i-{number:04}", "worker", "workers-spot", state, reason, at, "r1")


def status(desired: int, instances: int, *hosts: HostReport) -> DeploymentStatus:
    scheduler = HostReport(
        "i-5c", "scheduler", "scheduler", "running", None, "2026-11-24T09:28:00Z", "r1"
    )
    groups = {
        "scheduler": {"desired": 1, "instances": 1, "max_size": 1},
        "workers-spot": {"desired": desired, "instances": instances, "max_size": 2_000},
        "workers": {"desired": 0, "instances": 0, "max_size": 2_000},
    }
    return DeploymentStatus(
        *("etl", "running", "r1", "arn:aws:sts::1:user/ana", "2026-11-24T09:27:30Z"),
        "tls://10.64.0.5:8786",
        groups,
        (scheduler, *hosts),
        2_000,
    )


def drawn(view: LiveView, *, columns: int = 200, lines: int = 40, color: bool = False) -> str:
    """Return what a terminal gets, without the spaces at the ends of lines."""
    system = "truecolor" if color else None
    console = Console(
        file=io.StringIO(), force_terminal=True, color_system=system, width=columns, height=lines
    )
    with console.capture() as captured:
        console.print(Drawing(view))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def shown(seen: DeploymentStatus) -> str:
    return drawn(live_view(seen, POOLS, hourly_usd=Decimal("1.5"), now=NOW))


def page_of(view: LiveView) -> str:
    return Drawing(view).as_mimebundle()["text/html"]


def test_a_cluster_that_grows_says_what_is_waited_for() -> None:
    text = shown(
        status(
            5,
            4,
            report(1, "running"),
            report(2, "environment"),
            report(3, "failed", "no wheel of torch for hosts"),
        )
    )
    assert [line for line in text.splitlines() if line.startswith("waiting")] == [
        "waiting: AWS launches 1 of workers-spot",
        "waiting: 1 of workers-spot boot",
        "waiting: 1 of workers-spot get their packages",
    ]
    assert "price      $1.5000 an hour" in text
    (spot,) = [line for line in text.splitlines() if line.startswith("workers-spot")]
    states = "1 launched, 1 requested, 1 running, 1 environment, 1 failed"
    assert spot.split() == f"workers-spot 4/5 {states} spot m6i.xlarge and 1 more".split()
    hosts = [line.split()[:3] for line in text.splitlines() if line.startswith("i-")]
    assert hosts == [
        ["i-0003", "workers-spot", "failed"],
        ["i-0002", "workers-spot", "environment"],
        ["i-5c", "scheduler", "running"],
        ["i-0001", "workers-spot", "running"],
    ]
    assert "no wheel of torch for hosts" in text


@pytest.mark.parametrize("hosts", [1, 20, 1_000])
def test_it_fits_a_terminal_whatever_the_number_of_hosts(hosts: int) -> None:
    states = ["running"] * (hosts - 1) + ["failed"]
    seen = status(hosts, hosts, *(report(n, state) for n, state in enumerate(states)))
    lines = drawn(live_view(seen, POOLS, now=NOW), columns=80, lines=30).splitlines()
    assert len(lines) <= 28
    # What went wrong is never among those that are left out.
    assert any("failed" in line and "i-" in line for line in lines)
    if hosts == 1_000:
        assert lines[-1] == "and 991 more: 991 running"


def test_what_hosts_wrote_is_no_markup_and_lines_are_cut() -> None:
    reason = "[bold]x[/bold] \x1b[2J" + "y" * 200
    view = live_view(status(1, 1, report(1, "failed", reason)), POOLS, now=NOW)
    text = drawn(view, columns=80)
    assert "[bold]x[/bold] \N{REPLACEMENT CHARACTER}[2Jyyy" in text
    assert max(map(len, text.splitlines())) == 80
    assert text.count("y…") == 1
    assert "\x1b[1;31mfailed" in drawn(view, columns=80, color=True)


def test_a_cluster_that_ended_says_why() -> None:
    ended = Ended("2026-11-24T09:29:00Z", "idle for 20 minutes")
    text = shown(replace(status(0, 0), state="ended", ended=ended))
    assert "cluster    etl: ended" in text
    assert "ended      idle for 20 minutes" in text
    assert "waiting" not in text


RUN = Run(
    *("r1", "2026-11-24T09:27:30Z", "arn:aws:sts::1:user/ana", "v1", "3.11"),
    {"dask": "2026.7.1", "pandas": "3.1.1"},
    2,
    life=LifetimePolicy(no_client_timeout_seconds=120),
    hashed=True,
)


def attached(*joined: JoinedWorker) -> LiveView:
    hosts = [report(n, "running") for n in (1, 2)] + [replace(report(3, "running"), at="")]
    view = live_view(status(3, 3, *hosts), POOLS, run=RUN, workers=joined, now=NOW)
    return replace(view, step="planning")


def test_an_attached_client_sees_threads_and_memory_and_what_the_run_is() -> None:
    gib = 2**30
    view = attached(
        JoinedWorker("i-0001", 2, 4 * gib),
        JoinedWorker("i-0001", 2, 4 * gib),
        JoinedWorker("i-0002", 4, 15 * gib),
        # The worker beside the scheduler is on no host of the workers'.
        JoinedWorker("", 1, gib),
    )
    text = drawn(view)
    assert "dask       4 workers, 9 threads, 24 GiB" in text
    assert "software   Python 3.11, 2 packages, by hash" in text
    limits = "2,000 workers; ends after 20 min idle, or 2 min without a client, or 30 d in all"
    assert f"limits     {limits}" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line[:2] == "i-"}
    assert rows["i-0001"] == ["workers-spot", "running", "42", "s", "4", "8", "GiB"]
    # Since when isn't known of hosts that were there before.
    assert rows["i-0003"] == ["workers-spot", "running", "-", "-", "-"]
    assert "\nplanning\n" in text


def test_groups_are_in_the_clusters_own_order() -> None:
    seen = status(0, 0)
    mixed = replace(seen, groups=dict(reversed(seen.groups.items())))
    assert [group.name for group in live_view(mixed, POOLS, now=NOW).groups] == list(POOLS)


def test_views_that_differ_in_ages_alone_are_the_same() -> None:
    early = live_view(status(1, 1, report(1, "running")), POOLS, now=NOW)
    late = live_view(
        status(1, 1, report(1, "running")), POOLS, now=NOW + datetime.timedelta(minutes=1)
    )
    assert early != late
    assert early.without_ages == late.without_ages
    failed = live_view(status(1, 1, report(1, "failed")), POOLS, now=NOW)
    assert failed.without_ages != early.without_ages


@pytest.mark.parametrize("hosts", [1, 20, 1_000])
def test_a_notebook_gets_the_same_as_html_in_which_nothing_of_a_host_is_markup(hosts: int) -> None:
    reports = [report(n, "running") for n in range(hosts - 1)]
    evil = "<script>alert(1)</script> [link=http://evil]here[/link] \x1b[2J" + "y" * 200
    seen = status(hosts, hosts, *reports, report(hosts, "failed", evil))
    view = live_view(seen, POOLS, now=NOW, dashboard_link='http://x/"<i>')
    shown = Drawing(replace(view, notes=("<b>a note</b>",))).as_mimebundle()
    page = shown["text/html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;b&gt;a note" in page
    tags = {"div", "pre", "span", "a"}
    assert set(re.findall(r"<[/]?([^ >]*)", page)) == tags
    assert re.findall("<a [^>]*>", page) == ['<a target="_blank" href="http://x/&#34;&lt;i&gt;">']
    assert "\x1b" not in page + shown["text/plain"]
    # Nothing is cut: an output has several lines instead.
    assert page.count("y") >= 200
    hosts_shown = re.findall(r"^i-", html.unescape(re.sub("<[^>]*>", "", page)), re.MULTILINE)
    assert len(hosts_shown) == min(hosts + 1, 12)
    if hosts == 1_000:
        assert "and 989 more: " in page
        assert "and 989 more: 989 running" in shown["text/plain"]


def test_colours_of_a_notebook_are_its_own_but_for_states() -> None:
    """A page may be light or dark."""
    seen = status(2, 2, report(1, "running"), report(2, "failed", "no disk"))
    page = page_of(live_view(seen, POOLS, now=NOW))
    assert set(re.findall("color: (#[0-9a-f]+)", page)) == {"#2e8b57", "#c0392b"}
    assert "background" not in page


def test_a_cluster_that_is_made_shows_its_step() -> None:
    view = LiveView("etl", "making", step="etl: planning")
    assert drawn(view) == "cluster    etl: making\n\netl: planning"
    assert "\netl: planning" in page_of(view)


def test_hosts_that_are_gone_are_told_by_events_alone_and_problems_stay_in_sight() -> None:
    killed = report(1, "running").lost()
    left = report(2, "leaving", "idle").lost()
    assert (killed.state, left.state) == ("lost", "left")
    told = "workers: Launch is suspended: the group launches nothing, whatever its number"
    seen = replace(status(1, 1, killed, left, report(3, "running")), problems=(told,))
    view = live_view(seen, POOLS, now=NOW)
    assert {host.instance_id for host in view.hosts} == {"i-5c", "i-0003"}
    assert view.problems == (told,)
    lines = drawn(view, columns=80).splitlines()
    (first,) = (at for at, line in enumerate(lines) if line.startswith("problem    workers: La"))
    assert " ".join(line.strip() for line in lines[first : first + 2]) == f"problem    {told}"
    assert told in page_of(view)


def test_a_scheduler_that_replaced_another_shows_its_number() -> None:
    seen = replace(status(1, 1), scheduler_boot=2, scheduler_since="2026-11-24T09:29:00Z")
    assert "number 2 of this run since 2026-11-24T09:29:00Z" in shown(seen)
    assert "number" not in shown(replace(seen, scheduler_boot=1))
