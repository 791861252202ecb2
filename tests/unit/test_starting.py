"""Who starts a cluster where a run is over, or its starter is gone: one of them, whatever the
others have read before.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.s3 import as_json
from terradask._aws.session import Aws
from terradask._clusters import start
from terradask._clusters.start import RunPlan, Starter, check_bound, claim, with_start_options
from terradask._observe.record import ClusterRecord
from terradask._observe.secret import ClusterSecret
from terradask._observe.store import CLOSING, RUN, SCHEDULER
from terradask._software.client_versions import lock_software
from terradask.errors import (
    ClusterError,
    ClusterStopped,
    DocumentChanged,
    QuotaExceeded,
    SoftwareUnusable,
)
from terradask_host.documents import Run, sha256_of
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.structure import GroupEntry, SchedulerEntry, Structure, WorkerEntry
from terradask_stacks.settings import ClusterSettings

from ..moto_account import moto_account
from .baselines import baseline

#: Of the environment in which the tests run.
DEV_LOCK = Path(__file__).parents[2] / "requirements/dev.lock"
BUCKET = "terradask-default-123456789012-us-east-1"
UV = "host/0a/uv-1-py3-none-any.whl"  # hosts find the packages of their own program
STRUCTURE = Structure(
    groups={"workers": GroupEntry(autoscaling_group="a", role="worker", max_size=9)},
    worker=WorkerEntry(class_name="acme.Worker", options={"nthreads": 2}),
    scheduler=SchedulerEntry(class_name="acme.Scheduler", dashboard_https_port=8788),
)


def run(name: str, *, age_seconds: float = 0) -> Run:
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_seconds)
    return Run(name, at.isoformat(timespec="seconds"), "arn", "v1", "3.11", {}, 1)


class UntaggedSecret(ClusterSecret):
    """A secret without the cluster's tags, which aren't asked for."""

    def check_own(self) -> None: ...


class Record(ClusterRecord):
    """A record whose structure and groups are written down here."""

    def __init__(self, aws: Aws, **settings: Any) -> None:
        super().__init__(aws, BUCKET, "etl")
        self.desired, self.zeroed = {"scheduler": 0, "workers": 0}, 0
        #: Suspended processes of the workers' group, and AWS's reasons.
        self.suspended: dict[str, str] = {}
        self._settings = {"software": [], "environ": {}, "send_dask_config": False, **settings}

    @property
    def descriptor(self) -> Any:
        return SimpleNamespace(
            cluster="etl",
            groups={
                name: GroupEntry(autoscaling_group=name, role="worker", max_size=9)
                for name in ("scheduler", "workers")
            },
            settings=self._settings,
            cluster_settings=ClusterSettings.read(self._settings),
            lock={},
            worker_groups={"workers": ("workers",)},
            most_workers=lambda group: 9,
            architecture="x86_64",
            workspace="default",
            max_workers=9,
            structure=STRUCTURE,
            secret_id="terradask/default/etl",
        )

    def read_descriptor(self) -> Any:
        return self.descriptor

    def update_descriptor(self, descriptor: Any) -> bool:
        return False

    @property
    def secret(self) -> ClusterSecret:
        return UntaggedSecret(self.aws, self.where)

    @property
    def groups(self) -> Any:
        def zero() -> None:
            self.zeroed += 1

        return SimpleNamespace(
            describe=lambda: {
                name: Group(name, n, 9, suspended=self.suspended if name == "workers" else {})
                for name, n in self.desired.items()
            },
            resume=lambda state: {name: group.resumed() for name, group in state.items()},
            zero=zero,
            check_own=lambda: None,
            set_desired=self.desired.__setitem__,
            tag=lambda tags, of_groups: None,
            set_watchdog=lambda minutes: None,
        )

    @property
    def noted(self) -> str | None:
        return None if (found := self.run()) is None else found.run_id


ONE_WORKER = partial(with_start_options, n_workers=1)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("AdministrativeSuspension at …", "this start has resumed it"),
        ("User suspended at 2026-11-20T05:00:00Z", "aws autoscaling resume-processes"),
    ],
)
def test_a_start_tells_what_it_resumed_and_what_somebody_suspended(
    aws: Aws, reason: str, told: str
) -> None:
    record = Record(aws)
    record.suspended = {"Launch": reason}
    warned: list[str] = []
    start = Starter(record, stop=lambda: None).start
    start(ONE_WORKER, check_quotas=False, warn=warned.append)
    (problem,) = [text for text in warned if text.startswith("workers: ")]
    assert told in problem


def starter_of(
    record: Record,
    prepare: Callable[[Any, RunPlan], None] = lambda record, plan: None,
    root: Path | None = None,
) -> Starter:
    return Starter(
        record,
        stop=lambda: record.objects.delete([RUN]),
        root=root,
        prepare=lambda record, plan, keys: prepare(record, plan),
    )


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        found = Aws("us-east-1")
        s3 = found.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="workspace.json", Body=baseline().model_dump_json())
        s3.put_object(Bucket=BUCKET, Key=UV, Body=b"")
        found.client("secretsmanager").create_secret(Name="terradask/default/etl")
        yield found


@pytest.mark.parametrize(("starts", "warnings"), [(77, 0), (78, 1)])
def test_a_start_warns_before_the_secret_has_as_many_versions_as_aws_keeps(
    aws: Aws, starts: int, warnings: int
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    s3 = aws.client("s3")
    for number in range(100):
        hours, name = (1, "etl") if number < starts else ((1, "ml"), (25, "etl"))[number % 2]
        at = now - datetime.timedelta(hours=hours)
        key = f"accounts/{at:%Y%m%dT%H%M%SZ}-{number:06x}/{name}.json"
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"{}")
    record, warned = Record(aws), []
    Starter(record, stop=lambda: None).start(ONE_WORKER, check_quotas=False, warn=warned.append)
    assert sum(f"was started {starts + 1} times" in text for text in warned) == warnings


def test_a_stale_run_has_one_successor(aws: Aws) -> None:
    first, second = Record(aws), Record(aws)
    for name in (RUN, SCHEDULER, CLOSING, "hosts/i-1.json"):
        first.objects.write(name, run("old", age_seconds=61).to_document())
    # Both have seen that the run is over; the second comes to act when the first is through.
    seen = second.objects.read_version(RUN)
    assert claim(first, run("first"))
    assert first.objects.names() == [RUN]
    second.objects.read_version = lambda name: seen  # type: ignore[method-assign]
    assert not claim(second, run("second"))
    assert (first.noted, second.zeroed) == ("first", 0)


def test_a_run_that_goes_on_or_was_just_begun_is_left_alone(aws: Aws) -> None:
    record = Record(aws)
    record.objects.write(RUN, run("young", age_seconds=30).to_document())
    assert not claim(record, run("mine"))
    record.objects.write(RUN, run("old", age_seconds=600).to_document())
    record.desired["scheduler"] = 1
    assert not claim(record, run("mine"))
    assert (record.noted, record.zeroed) == ("old", 0)
    record.objects.delete([RUN])
    assert claim(record, run("mine"))


def test_a_version_that_is_gone_is_replaced_by_nobody(aws: Aws) -> None:
    record = Record(aws)
    record.objects.write(RUN, {})
    _, version = record.objects.read_version(RUN) or ({}, "")
    record.objects.delete([RUN])
    assert not record.objects.replace(RUN, {}, version)
    assert record.objects.names() == []


@pytest.mark.parametrize(
    ("mark", "why"), [([CLOSING], "was not completed"), ([], "some of its groups are missing")]
)
def test_it_is_started_only_while_it_is_whole(aws: Aws, mark: list[str], why: str) -> None:
    record = Record(aws)
    starter = starter_of(record)
    for name in mark:
        record.objects.write(name, {"format": 1})
    del record.desired["workers"]
    with pytest.raises(ClusterError, match=f"partly destroyed: .*{why}") as refused:
        starter.start(ONE_WORKER, check_quotas=False)
    assert refused.value.given == "without workers"
    assert record.objects.names() == mark
    record.desired["workers"] = 0
    starter.start(ONE_WORKER, check_quotas=False)
    assert (record.desired, record.objects.names()) == ({"scheduler": 1, "workers": 1}, [RUN])


@pytest.mark.parametrize(("successor", "raised"), [("other", 0), (None, 0), ("mine", 1)])
def test_whoever_was_overtaken_while_preparing_raises_nothing(
    aws: Aws, successor: str | None, raised: int
) -> None:
    record = Record(aws)

    def prepare(_: Any, plan: RunPlan) -> None:
        if successor == "other":
            record.objects.write(RUN, run("other").to_document())
        elif successor is None:
            record.objects.delete([RUN])

    starter = starter_of(record, prepare)
    if successor is None:
        with pytest.raises(ClusterStopped, match="while it was starting"):
            starter.start(ONE_WORKER, check_quotas=False)
    else:
        warned: list[str] = []
        started = starter.start(ONE_WORKER, check_quotas=False, warn=warned.append)
        # What it has written meanwhile may not be the other run's.
        assert [f"terradask stop {record.name}" in text for text in warned] == (
            [True] if successor == "other" else []
        )
        assert (started.run_id == starter.started_run_id) == (successor == "mine")
        assert (started.run_id == "other") == (successor == "other")
    assert record.desired["scheduler"] == raised


def test_a_start_looks_again_at_its_run_where_preparing_the_groups_takes_long(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, looked = Record(aws), threading.Event()
    find = record.run

    def look() -> Run | None:
        try:
            return find()
        finally:
            looked.set()

    def slow(_: object, of_groups: object) -> None:
        assert looked.wait(10)
        record.objects.write(RUN, run("other").to_document())

    monkeypatch.setattr(start, "_RECENT_SECONDS", 0.0)
    monkeypatch.setattr(record, "run", look)
    groups = record.groups
    groups.tag = slow
    monkeypatch.setattr(Record, "groups", groups)
    assert starter_of(record).start(ONE_WORKER, check_quotas=False).run_id == "other"
    assert record.desired["scheduler"] == 0


@pytest.mark.parametrize(("begun", "reads"), [("the same", 1), ("another", 2), ("an old one", 2)])
def test_what_was_read_meanwhile_is_used_once_for_the_same_start_while_it_is_new(
    aws: Aws, monkeypatch: pytest.MonkeyPatch, begun: str, reads: int
) -> None:
    record, read = Record(aws), []
    monkeypatch.setattr(record, "read_descriptor", lambda: read.append(1) or record.descriptor)
    # AWS's quotas are none of its subject.
    monkeypatch.setattr(start, "deployed_launch", lambda *_: [])
    starter = starter_of(record)
    settings = ONE_WORKER(record.descriptor.cluster_settings)
    if begun == "another":
        settings = settings.model_copy(update={"n_workers": 2})
    starter.begin(settings)
    if begun == "an old one":
        monkeypatch.setattr(start, "_RECENT_SECONDS", 0.0)
    starter.start(ONE_WORKER, check_quotas=False)
    assert len(read) == reads
    record.objects.delete([RUN])
    starter.start(ONE_WORKER, check_quotas=False)
    assert len(read) == reads + 1


@pytest.mark.locked
def test_the_hosts_lock_has_the_hashes_of_the_file_that_the_settings_name(
    aws: Aws, tmp_path: Path
) -> None:
    """The path counts from terradask.toml, wherever the command runs; an argument goes
    before it.
    """
    locks: list[str] = []

    def prepare(_: Any, plan: RunPlan) -> None:
        locks.append(plan.software.to_requirements())

    record = Record(aws, software_lock="team.lock")
    starter = starter_of(record, prepare, tmp_path)
    with pytest.raises(SoftwareUnusable, match=r"team\.lock"):
        starter.start(ONE_WORKER, check_quotas=False)
    assert record.objects.names() == []
    (tmp_path / "team.lock").write_text(DEV_LOCK.read_text())
    starter.start(ONE_WORKER, check_quotas=False)
    noted = record.run()
    assert noted is not None
    assert noted.hashed
    assert all("--hash=sha256:" in line for line in locks[0].splitlines())

    other = Record(aws)
    starter = starter_of(other, prepare)
    other.objects.delete([RUN])
    starter.start(partial(ONE_WORKER, software_lock=DEV_LOCK), check_quotas=False)
    assert locks[1] == locks[0]
    other.objects.delete([RUN])
    starter.start(ONE_WORKER, check_quotas=False)
    assert "--hash" not in locks[2]
    noted = other.run()
    assert noted is not None
    assert not noted.hashed


def test_the_secret_binds_what_hosts_act_on(aws: Aws) -> None:
    record, secrets = Record(aws), aws.client("secretsmanager")
    started = Starter(record, stop=lambda: None).start(ONE_WORKER, check_quotas=False)
    secret = json.loads(secrets.get_secret_value(SecretId="terradask/default/etl")["SecretString"])
    assert secret["run_id"] == started.run_id
    assert secret["sha256"].keys() == {"run.json", "software.lock"}
    for name, digest in secret["sha256"].items():
        assert sha256_of(record.objects.read_bytes(name) or b"") == digest
    noted = record.run()
    assert noted is not None
    assert noted.structure == STRUCTURE


@pytest.mark.parametrize("missing", ["run.json", "software.lock", "tags", "keys"])
def test_a_start_that_breaks_off_raises_no_group_and_the_next_one_is_whole(
    aws: Aws, missing: str
) -> None:
    """A host that is launched all the same finds no keys of this run, or documents that they don't
    bind.
    """
    record, secrets = Record(aws), aws.client("secretsmanager")
    secrets.put_secret_value(SecretId="terradask/default/etl", SecretString='{"format": 1}')

    def fail(*_: object, **__: object) -> None:
        raise ConnectionError(missing)

    def whole() -> dict[str, Group]:
        return {name: Group(name, 0, 9) for name in record.desired}

    with pytest.MonkeyPatch.context() as patch:
        if missing == "run.json":
            patch.setattr(record.objects, "claim", fail)
        elif missing == "software.lock":
            patch.setattr(record.objects, "write_text", fail)
        elif missing == "tags":
            patch.setattr(
                Record,
                "groups",
                SimpleNamespace(
                    tag=fail, set_watchdog=fail, check_own=dict, describe=whole, resume=dict
                ),
            )
        else:
            patch.setattr(ClusterSecret, "write", fail)
        with pytest.raises(ConnectionError, match=missing):
            Starter(record, stop=lambda: None).start(ONE_WORKER, check_quotas=False)
    assert record.desired == {"scheduler": 0, "workers": 0}
    if (left := record.run()) is not None:
        old = run("old", age_seconds=61).started_at
        record.objects.write(RUN, {**left.to_document(), "started_at": old})
    started = Starter(record, stop=lambda: None).start(ONE_WORKER, check_quotas=False)
    secret = json.loads(secrets.get_secret_value(SecretId="terradask/default/etl")["SecretString"])
    assert (secret["run_id"], record.noted) == (started.run_id, started.run_id)
    for name, digest in secret["sha256"].items():
        assert sha256_of(record.objects.read_bytes(name) or b"") == digest
    assert record.desired["scheduler"] == 1


DOCUMENT: dict[str, Any] = {
    "format": 1,
    "workspace": "default",
    "cluster": "etl",
    "region": "us-east-1",
    "bucket": BUCKET,
    "zone": "us-east-1a",
    "groups": {
        "scheduler": {
            "autoscaling_group": "terradask-default-etl-scheduler",
            "role": "scheduler",
            "max_size": 1,
        },
        "workers": {
            "autoscaling_group": "terradask-default-etl-workers",
            "role": "worker",
            "max_size": 9,
        },
    },
    "secret_id": "terradask/default/etl",
    "worker": {"class": "distributed.Nanny"},
    "settings": {},
    "lock": {},
}


def test_a_private_clusters_descriptor_is_what_was_applied(aws: Aws) -> None:
    applied = as_json(DOCUMENT)
    planted = {**DOCUMENT, "worker": {"class": "planted.Class"}}

    def check(first: dict[str, Any], then: dict[str, Any]) -> None:
        record = ClusterRecord(aws, BUCKET, "etl")
        record.objects.write("cluster.json", first)
        assert record.descriptor.cluster == "etl"
        record.objects.write("cluster.json", then)
        check_bound(record)

    # The secret of a cluster that isn't private binds nothing.
    check(planted, planted)
    tag = {"Key": "terradask:descriptor", "Value": sha256_of(applied)}
    aws.client("secretsmanager").tag_resource(SecretId="terradask/default/etl", Tags=[tag])
    check(DOCUMENT, DOCUMENT)
    # Also where it was exchanged only while it was read.
    for first, then in ((planted, planted), (DOCUMENT, planted), (planted, DOCUMENT)):
        with pytest.raises(DocumentChanged, match=r"cluster\.json of cluster 'etl'") as caught:
            check(first, then)
        assert "terradask apply etl" in str(caught.value)


class NoRoom:
    """A look at AWS's quotas that finds none."""

    def check(self, tell: Any, *, starts: bool) -> None:
        raise QuotaExceeded("no room", cluster="etl", largest={}, quotas=[])


def no_version(*_: Any) -> None:
    raise QuotaExceeded("AWS takes no version of the secret", cluster="etl")


def test_without_room_in_quotas_nothing_is_raised_and_what_was_prepared_goes(aws: Aws) -> None:
    record = Record(aws)
    software = replace(lock_software([]), newer_glibc={"fresh": (2, 39)}, missing={"acme": "x"})
    plan = RunPlan(run("mine"), {"workers": 1}, software, NoRoom())  # type: ignore[arg-type]
    warned: list[str] = []
    with pytest.raises(QuotaExceeded, match="no room"):
        starter_of(record).start_planned(plan, warned.append)

    with pytest.raises(QuotaExceeded, match="no version of the secret"):
        starter_of(record, no_version).start_planned(plan, print)
    assert {"fresh (glibc 2.39)" in warned[0], "acme (x)" in warned[1]} == {True}
    assert (record.noted, record.desired) == (None, {"scheduler": 0, "workers": 0})
