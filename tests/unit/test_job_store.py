"""What a client reads of jobs in the bucket: in few calls, and whatever else is there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._clusters.deployment import Deployment
from terradask._clusters.jobs.store import JobStore
from terradask.errors import DocumentFormat, JobNotFound
from terradask_host.jobs import output_name, record_name

from ..command import in_this_process
from ..moto_account import moto_account
from .test_job_tasks import some_job

BUCKET = "workspace"
FIRST, SECOND = "20261124T153000Z-1f3a9c4", "20261125T010000Z-0000000"


@pytest.fixture
def s3() -> Iterator[Any]:
    with moto_account():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def put(s3: Any, name: str, document: Any) -> None:
    packed = gzip.compress(json.dumps(document).encode())
    s3.put_object(Bucket=BUCKET, Key=f"reports/etl.jobs/{name}", Body=packed)


def test_jobs_are_listed_in_one_call_however_many_tasks_they_have(s3: Any) -> None:
    for job in (FIRST, SECOND):
        put(s3, record_name(job), some_job().to_document())
    for index in range(1_100):
        put(s3, output_name(FIRST, index), {})
    put(s3, "not-a-job/job.json.gz", {})
    aws = Aws("us-east-1")
    calls: list[str] = []
    aws.client("s3").meta.events.register(
        "before-call.s3", lambda model, **_: calls.append(model.name)
    )
    assert JobStore(aws, BUCKET, "etl").ids() == [SECOND, FIRST]
    assert calls == ["ListObjectsV2"]


def test_a_record_is_read_and_what_is_none_is_refused(s3: Any) -> None:
    store = JobStore(Aws("us-east-1"), BUCKET, "etl")
    put(s3, record_name(FIRST), some_job().to_document())
    assert store.record(FIRST).cluster == "etl"
    put(s3, record_name(FIRST), {"format": 99})
    with pytest.raises(DocumentFormat, match="is unreadable"):
        store.record(FIRST)
    with pytest.raises(JobNotFound):
        store.record(SECOND)
    with pytest.raises(JobNotFound):
        store.record("../other")


@pytest.fixture
def command(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    workspace = SimpleNamespace(deployment=lambda name: Deployment(Aws("us-east-1"), BUCKET, name))
    monkeypatch.setattr("terradask.cli._job.load_workspace", lambda: workspace)
    return in_this_process


def test_a_record_that_cant_be_read_hides_no_other_and_a_long_one_takes_no_page(
    s3: Any, command: Callable[..., Any]
) -> None:
    long = replace(some_job(("i" * 4_000, "b")), command=("sh", "-c", "x" * 9_000)).to_document()
    put(s3, record_name(FIRST), long)
    put(s3, record_name(SECOND), {"format": 99})
    done = command("job", "list", "etl")
    assert done.returncode == 0
    assert f"etl/{SECOND}: a job's record is unreadable" in done.stderr
    _head, row = done.stdout.splitlines()
    assert row.startswith(f"etl/{FIRST}  lost")
    shown = command("job", "status", f"etl/{FIRST}")
    assert max(map(len, (*done.stdout.splitlines(), *shown.stdout.splitlines()))) < 250
    assert len(shown.stdout.splitlines()) == 3
    found = json.loads(command("job", "list", "etl", "--json").stdout)
    assert [len(one["command"][2]) for one in found] == [9_000]


def test_what_isnt_kept_of_an_output_is_said(s3: Any, command: Callable[..., Any]) -> None:
    put(s3, record_name(FIRST), some_job().to_document())
    put(s3, output_name(FIRST, 1), {"format": 1, "missed": 7, "pieces": [[1, "b3V0Cg=="]]})
    done = command("job", "logs", f"etl/{FIRST}", "--task", "1")
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert "terradask: 7 bytes are missing here" in done.stderr
