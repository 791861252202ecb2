"""The documents in the bucket, which the client and the hosts read and write by one schema."""

from __future__ import annotations

import json

import pytest

from terradask_host import documents, structure
from terradask_host.documents import (
    Ended,
    HostReport,
    LifetimePolicy,
    Run,
    SchedulerAddress,
    SchedulerEntry,
    WorkerEntry,
)
from terradask_host.scaling_policy import Exchange
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.settings.life import IDLE_TIMEOUT_SECONDS, MOST_LIFETIME_SECONDS

AT = "2026-11-20T05:15:00Z"
RUN = Run(
    "r1",
    AT,
    "me",
    "v1",
    "3.12",
    {"dask": "2026.8.0"},
    2,
    {"A": "1"},
    {"array": {}},
    LifetimePolicy(),
    hashed=True,
)
ADDRESS = SchedulerAddress(
    "r1", "i-1", 1, "tls://10.64.0.5:8786", None, 8787, "3.12", {"dask": "2026.8.0"}, started_at=AT
)
REPORT = HostReport(
    instance_id="i-1",
    role="worker",
    group="workers",
    state="failed",
    reason="why",
    at=AT,
    run_id=None,
    private_address="10.64.0.7",
    history=(("booting", AT), ("failed", AT)),
    reasons=(None, "why"),
    log_tail=("a", "b"),
    notes=((AT, "workers", "given up", "why"),),
)


@pytest.mark.parametrize(
    "document",
    [
        RUN,
        ADDRESS,
        SchedulerAddress(**{**vars(ADDRESS), "ended": Ended(AT, "idle")}),
        SchedulerAddress(**{**vars(ADDRESS), "exchanges": {"workers": Exchange(4, 2, 1)}}),
        SchedulerAddress(**{**vars(ADDRESS), "numbers": {"workers": 4}}),
        REPORT,
    ],
)
def test_what_one_end_writes_the_other_reads(document: Run | SchedulerAddress | HostReport) -> None:
    text = json.dumps(document.to_document())
    assert type(document).read(json.loads(text)) == document
    assert type(document).read({**json.loads(text), "of_a_later_version": 1}) == document


def test_keys_are_those_of_format_1() -> None:
    assert set(ADDRESS.to_document()) == {
        *(
            "format",
            "run_id",
            "instance_id",
            "boot",
            "started_at",
            "private_address",
            "public_address",
            "dashboard_port",
        ),
        *("packages", "python", "scaling", "exchanges", "numbers"),
    }
    assert set(REPORT.to_document()) == {
        *(
            "format",
            "run_id",
            "instance_id",
            "role",
            "group",
            "state",
            "reason",
            "at",
            "history",
            "reasons",
            "notes",
        ),
        *("private_address", "instance_type", "log_tail"),
    }
    assert documents.closing_document(AT) == {"format": 1, "at": AT}
    assert documents.closing_document(AT, "idle") == {"format": 1, "at": AT, "reason": "idle"}


def test_what_a_document_leaves_out_is_as_settings_have_it() -> None:
    settings = ClusterSettings()
    scheduler, worker = SchedulerEntry(), WorkerEntry()
    assert (scheduler.class_name, worker.class_name) == (
        settings.scheduler_class,
        settings.worker_class,
    )
    assert (scheduler.port, scheduler.dashboard_port) == (
        settings.scheduler_port,
        settings.dashboard_port,
    )
    assert worker.workers_per_host == settings.workers_per_host
    assert (LifetimePolicy().idle_timeout_seconds, documents.MOST_LIFETIME_SECONDS) == (
        IDLE_TIMEOUT_SECONDS,
        MOST_LIFETIME_SECONDS,
    )
    assert structure.WORKER_GROUP == WORKER_GROUP
