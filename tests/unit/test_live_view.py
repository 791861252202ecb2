"""A cluster as a person watches it: readable with one host, twenty and a thousand."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import pytest

from terradask._deployments.live_view import live_view
from terradask._deployments.shortfall import Pool
from terradask._deployments.status import DeploymentStatus
from terradask.cli._watch import coloured, view_text
from terradask_host.documents import Ended, HostReport

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


def shown(seen: DeploymentStatus, most_hosts: int = 20) -> str:
    view = live_view(seen, POOLS, hourly_usd=Decimal("1.5"), now=NOW, most_hosts=most_hosts)
    return view_text(view)


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
    lines = shown(seen, most_hosts=10).splitlines()
    assert len(lines) <= 28
    # What went wrong is never among those that are left out.
    assert any("failed" in line and "i-" in line for line in lines)
    if hosts == 1_000:
        assert lines[-1] == "and 991 more: 991 running"


def test_what_hosts_wrote_is_no_markup_and_lines_are_cut() -> None:
    text = shown(status(1, 1, report(1, "failed", "[bold]x[/bold] " + "y" * 200)))
    drawn = coloured(text, 80)
    assert "[bold]x[/bold]" in drawn.plain
    assert max(map(len, drawn.plain.splitlines())) == 80
    failed = drawn.plain.index("failed")
    assert any(span.start <= failed < span.end and "red" in str(span.style) for span in drawn.spans)


def test_a_cluster_that_ended_says_why() -> None:
    ended = Ended("2026-11-24T09:29:00Z", "idle for 20 minutes")
    text = shown(replace(status(0, 0), state="ended", ended=ended))
    assert "cluster    etl: ended" in text
    assert "ended      idle for 20 minutes" in text
    assert "waiting" not in text
