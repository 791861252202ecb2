"""A scheduler that answers, and certificates that a clock makes invalid: said at once, and what is
sure; ingress is no matter then.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
import time
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Scheduler
from distributed.comm.core import CommClosedError
from distributed.security import Security

from terradask._aws.session import Aws
from terradask._clusters import certificates
from terradask._clusters.attach import Attachment
from terradask._clusters.certificates import make_keys
from terradask._dask import dial
from terradask._dask.dial import AddressEndpoint, Dialer, tls_error, why_refused
from terradask._observe.documents import Descriptor
from terradask._observe.keys import KeySet
from terradask.errors import SchedulerUnreachable
from terradask_host.documents import Run, SchedulerAddress

PATIENCE_SECONDS = 60.0


def keys_made(monkeypatch: pytest.MonkeyPatch, ahead_seconds: float) -> KeySet:
    """Return the keys that a machine makes whose clock is ahead, and that doesn't know it."""

    class Ahead(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.now(tz) + datetime.timedelta(seconds=ahead_seconds)

    with monkeypatch.context() as patched:
        clock = SimpleNamespace(datetime=Ahead, timedelta=datetime.timedelta, UTC=datetime.UTC)
        patched.setattr(certificates, "datetime", clock)
        return make_keys("etl", "run")


def security_of(keys: KeySet) -> Security:
    """Return a scheduler's security."""
    return Security(
        require_encryption=True,
        tls_ca_file=keys.ca,
        tls_scheduler_cert=keys.scheduler.cert,
        tls_scheduler_key=keys.scheduler.key,
    )


def attachment(address: str, keys: KeySet) -> Attachment:
    descriptor = Descriptor("w", "etl", "us-east-1", "b", "us-east-1a", {}, "s", {}, {})
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)
    scheduler = SchedulerAddress("r1", "i-1", 1, address, address, 8787, "3.11", {})
    return Attachment(descriptor, run, scheduler, keys)


async def call(function: Any, *args: Any) -> Any:
    return function(*args)


async def reached(
    scheduler_keys: KeySet, client_keys: KeySet, *, ahead_seconds: float = 0.0, seconds: float
) -> None:
    """Dial a scheduler with real TLS."""
    async with Scheduler(
        host="127.0.0.1",
        port=0,
        protocol="tls",
        dashboard=False,
        security=security_of(scheduler_keys),
    ) as scheduler:
        deployment: Any = SimpleNamespace(aws=SimpleNamespace(clock_ahead_seconds=ahead_seconds))
        dialer = Dialer(
            deployment,
            AddressEndpoint("public"),
            client_keys.client_security(),
            call,
            allowed_sources=lambda: ["203.0.113.0/24 on 8786"],
            try_seconds=1.0,
            pause_seconds=0.01,
        )
        _, comm = await dialer.reach(attachment(scheduler.address, client_keys), seconds)
        await comm.close()


def test_certificates_that_begin_later_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = keys_made(monkeypatch, 900.0)
    started = time.monotonic()
    with pytest.raises(SchedulerUnreachable, match="a clock is wrong") as caught:
        asyncio.run(reached(keys, keys, seconds=PATIENCE_SECONDS))
    assert time.monotonic() - started < PATIENCE_SECONDS / 2
    assert "the certificates of this run are valid from" in str(caught.value)
    assert "203.0.113.0/24" not in str(caught.value)
    assert tls_error(caught.value) is not None


def test_keys_made_by_awss_clock_work_on_a_machine_that_is_ahead() -> None:
    keys = make_keys("etl", "run", clock_ahead_seconds=600.0)
    asyncio.run(reached(keys, keys, seconds=PATIENCE_SECONDS))


def test_another_authority_is_a_matter_of_tls_and_not_of_ingress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dial, "newest", lambda known, deployment: known)
    with pytest.raises(SchedulerUnreachable, match="can be reached, but TLS fails") as caught:
        asyncio.run(reached(make_keys("a", "run"), make_keys("etl", "run"), seconds=0.2))
    assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)
    assert "203.0.113.0/24" not in str(caught.value)


def refusal(reason: str) -> CommClosedError:
    """Return what Dask raises when the other end refuses a certificate by an alert."""
    cause = ssl.SSLError(1, f"[SSL: {reason}] {reason.lower()}")
    cause.reason = reason
    error = CommClosedError("in <TLS>: Stream is closed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("made_ahead", "ahead", "words"),
    [
        # This machine is ahead: its certificates begin later than AWS's clock.
        (600, 600, "valid from"),
        (0, 600, "this machine's clock is wrong"),
        (0, -600, "valid from"),
        (0, 0, None),
    ],
)
def test_a_certificate_that_the_scheduler_refuses_is_compared_with_both_clocks(
    monkeypatch: pytest.MonkeyPatch, made_ahead: float, ahead: float, words: str | None
) -> None:
    here = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead)
    pem = keys_made(monkeypatch, made_ahead).client.cert
    refused = refusal("SSLV3_ALERT_BAD_CERTIFICATE")
    told = why_refused(refused, pem, ahead_seconds=ahead, here=here)
    assert (told is None) if words is None else (told is not None and words in told)
    # Nothing else is the clocks' fault.
    for error in (refusal("TLSV1_ALERT_INTERNAL_ERROR"), OSError("no route"), TimeoutError()):
        assert why_refused(error, pem, ahead_seconds=ahead, here=here) is None


@pytest.mark.parametrize("ahead", [0, 600, -90])
def test_awss_clock_is_read_from_its_answers(ahead: int) -> None:
    aws = Aws("us-east-1")
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ahead)
    date = at.strftime("%a, %d %b %Y %H:%M:%S GMT")
    aws._compare_clocks({"ResponseMetadata": {"HTTPHeaders": {"date": date}}})
    assert ahead - 1 <= aws.clock_ahead_seconds <= ahead + 1
    aws._compare_clocks({"ResponseMetadata": {"HTTPHeaders": {}}})
    aws._compare_clocks({})
    assert ahead - 1 <= aws.clock_ahead_seconds <= ahead + 1
