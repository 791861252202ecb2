"""A scheduler's host that S3 refuses can't report: what it says in its log reaches the caller."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.rate_limit import RateLimiter
from terradask._clusters import attach as scheduler_host_log
from terradask._clusters.attach import attach
from terradask._observe.documents import Descriptor
from terradask.errors import HostFailed, SchedulerMissing
from terradask_host.documents import Run
from terradask_host.log_streams import LogStream
from terradask_host.rules.autoscaling_groups import Group, Member

from .log_account import LogAccount, log_account

RUN_ID = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-abc123"
RUN = Run(RUN_ID, "2026-11-20T05:15:00Z", "arn", f"{1:032x}", "3.11", {}, 2)
HOST, REPLACEMENT, OTHER = (f"i-{n:017x}" for n in (1, 2, 3))

#: As the host program writes it, where a policy of the bucket denies it.
REFUSED = (
    "terradask-host: reports can't be written: AccessDenied: An error occurred (AccessDenied) when "
    "calling the PutObject operation: User: r is not authorized to perform: s3:PutObject"
)
GAVE_UP = (
    "terradask-host: ERROR: No run.json and keys of this instance's run within 300 s. AWS's last "
    "answer: AccessDenied",
    "    given: the instance's run is r1",
)
BOOT = "terradask-boot: ERROR: boot.sh failed at line 118: get_host_program"


class Unreported:
    """The objects of a cluster to which no host can write."""

    def read(self, name: str) -> None:
        return None

    def read_bytes(self, name: str) -> None:
        return None

    def hosts(self, most: int | None = None) -> list[dict[str, Any]]:
        return []


def wait(account: LogAccount, *members: str, timeout_seconds: float) -> None:
    group = Group("scheduler", 1, 1, tuple(Member(one, "InService") for one in members))
    record = SimpleNamespace(
        name="etl",
        aws=account.aws,
        where=SimpleNamespace(workspace="default"),
        objects=Unreported(),
        groups=SimpleNamespace(describe=lambda: {"scheduler": group}, failures=lambda name: []),
        descriptor=Descriptor("default", "etl", "us-east-1", "b", "us-east-1a", {}, "s", {}, {}),
        limiter=RateLimiter(poll_interval_seconds=0.001),
    )
    attach(
        record,  # type: ignore[arg-type]
        RUN,
        timeout_seconds=timeout_seconds,
        on_wait=None,
        cancelled=lambda: False,
        report_seconds=0,
    )


def stream(host: str, group: str = "scheduler", run: str = RUN_ID) -> str:
    return LogStream("etl", run, group, host).name


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[LogAccount]:
    monkeypatch.setattr(scheduler_host_log, "_SILENT_SECONDS", 0.0)
    with log_account() as made:
        yield made


@pytest.mark.parametrize("run", [RUN_ID, "-"], ids=["its run", "before it knows its run"])
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (GAVE_UP, "within 300 s. AWS's last answer: AccessDenied given: the instance's run is r1"),
        ((BOOT,), "boot.sh failed at line 118: get_host_program"),
    ],
    ids=["host program", "boot"],
)
def test_a_host_that_failed_without_a_report_is_told_by_its_log(
    account: LogAccount, said: tuple[str, ...], reason: str, run: str
) -> None:
    account.put(stream(HOST, run=run), REFUSED, *said, "cloud-init: \x1b[31mred")
    account.put(stream(OTHER, "workers"), "terradask-host: ERROR: another's")
    with pytest.raises(HostFailed, match="could not report that to S3") as caught:
        wait(account, HOST, timeout_seconds=60)
    assert caught.value.instance_id == HOST
    assert str(caught.value.reason).endswith(reason)
    assert caught.value.log_tail[0] == REFUSED
    assert "\x1b" not in str(caught.value)
    assert "terradask apply network" in str(caught.value)


def test_a_host_that_goes_on_is_waited_for_and_then_told_with_what_s3_says(
    account: LogAccount,
) -> None:
    account.put(stream(HOST), REFUSED, "terradask-host: version 1")
    # A predecessor's of the same run that isn't there any more, and was never seen.
    account.put(stream(REPLACEMENT), *GAVE_UP)
    with pytest.raises(SchedulerMissing, match=r"in its log: .*not authorized.*s3:PutObject"):
        wait(account, HOST, timeout_seconds=0.3)


def test_without_logs_or_the_right_to_read_them_the_wait_ends_as_before(
    account: LogAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SchedulerMissing, match="its host has not reported yet"):
        wait(account, HOST, timeout_seconds=0.3)
    account.put(stream(HOST), *GAVE_UP)
    monkeypatch.setattr(account.aws, "client", lambda name: {}[name])
    words = scheduler_host_log.SchedulerHostLog(SimpleNamespace(name="etl", aws=account.aws), RUN)  # type: ignore[arg-type]
    assert words.check_now([HOST]) is None


def test_a_log_is_read_rarely_and_of_no_host_that_boots(
    account: LogAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.calls.clear()
    monkeypatch.setattr(scheduler_host_log, "_SILENT_SECONDS", 60.0)
    words = scheduler_host_log.SchedulerHostLog(SimpleNamespace(name="etl", aws=account.aws), RUN)  # type: ignore[arg-type]
    for _ in range(100):
        words.check([HOST])
    assert account.calls == {}
