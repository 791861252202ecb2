"""One environment for all hosts of a run: real uv, an index on loopback, S3 by moto."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, ResponseStreamingError

from terradask_host import documents
from terradask_host.agent import object_stream, uv
from terradask_host.agent.aws import Aws
from terradask_host.agent.bound_run import BoundRun
from terradask_host.agent.environment import Environment
from terradask_host.agent.event_queue import EventQueue, Stop, StopRequested
from terradask_host.agent.objects import MOST_DOCUMENT_BYTES, ClusterObjects
from terradask_host.agent.shared_environment import (
    MANIFEST,
    SCHEDULER,
    SharedEnvironment,
    Sharing,
)
from terradask_host.config import Paths
from terradask_host.documents import EnvironmentArchive, Run, sha256_of
from terradask_host.environment_manifest import EDITED, FAILED, READY, EnvironmentManifest
from terradask_host.errors import ConfigInvalid, EnvironmentFailed
from terradask_host.timing import Timing

from ..moto_account import moto_account
from ..package_index import publish, serving
from ..waiting import PROCESS_SECONDS, eventually

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
BUCKET = "terradask-tests"
KEY = "-----BEGIN the scheduler's key of this run"
LOCK = "probe==1.0\n"
RUN = b"what the run was started with"
#: What an archive may say of itself.
MARKS = (".complete", ".whole")
PATIENT = Timing(environment_share_seconds=PROCESS_SECONDS)


@dataclass
class Cluster:
    """The hosts of one run, each with a folder for its disk."""

    folder: Path
    asked: list[str]
    objects: ClusterObjects
    s3: Any
    run_id: str = "run-1"
    key: str = KEY
    lock: str = LOCK
    built: EnvironmentArchive | None = None
    logs: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def host(
        self, name: str, timing: Timing = PATIENT, events: EventQueue | None = None
    ) -> SharedEnvironment:
        run = Run(self.run_id, "", "", "", PYTHON, {}, 1, environment=self.built)
        self.s3.put_object(Bucket=BUCKET, Key="clusters/one/run.json", Body=RUN)
        secret = {
            "scheduler": {"key": self.key},
            "sha256": {
                "run.json": sha256_of(RUN),
                "software.lock": sha256_of(self.lock.encode()),
            },
        }
        environment = Environment(
            Paths(self.folder / name),
            PYTHON,
            self.lock,
            events=events or EventQueue(),
            log=self.logs.setdefault(name, []).append,
            deadline_seconds=PROCESS_SECONDS,
        )
        return SharedEnvironment(
            environment,
            BoundRun(run, cast(Any, None), secret),
            self.objects,
            instance_id=name,
            timing=timing,
            sharing=Sharing(),
            note=self.notes.append,
        )

    def lead(self, name: str = "i-scheduler") -> Path:
        """Build it, and return when it is shared."""
        python = self.host(name).lead()
        eventually(lambda: self.manifest().get("state") == READY)
        return python

    def manifest(self) -> dict[str, Any]:
        return self.objects.read_document(MANIFEST) or {}

    def archive(self) -> str:
        return str(self.manifest()["archive"]["key"])


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
    monkeypatch.setattr(uv, "TRIES", 1)
    asked: list[str] = []
    publish(tmp_path / "index", "probe", "1.0", "OWN = True")
    with moto_account(), serving(tmp_path / "index", asked) as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        aws = Aws("us-east-1")
        s3 = aws.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        yield Cluster(tmp_path, asked, ClusterObjects(aws, BUCKET, "one"), s3)
        s3.close()


def imports(python: Path) -> str:
    """Return where this Python has the package from."""
    code = "import probe; assert probe.OWN; print(probe.__file__)"
    command = [python, "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_index_is_asked_by_the_first_host_alone(cluster: Cluster) -> None:
    names = [f"i-{number}" for number in range(4)]
    with ThreadPoolExecutor(len(names)) as pool:
        waiting = [pool.submit(cluster.host(name).follow) for name in names]
        assert imports(cluster.lead()).startswith(str(cluster.folder / "i-scheduler"))
        asked = list(cluster.asked)
        pythons = [each.result(PROCESS_SECONDS) for each in waiting]
    for name, python in zip(names, pythons, strict=True):
        assert imports(python).startswith(str(cluster.folder / name))
    assert cluster.asked == asked
    assert sorted(asked) == ["/files/probe-1.0-py3-none-any.whl", "/simple/probe/"]
    assert not cluster.notes


def test_another_schedulers_host_of_the_run_fetches_it(cluster: Cluster) -> None:
    cluster.lead()
    asked = list(cluster.asked)
    imports(cluster.host("i-next").lead())
    assert cluster.asked == asked


def test_a_host_program_that_ended_before_it_had_shared_it_shares_it(cluster: Cluster) -> None:
    cluster.host("i-scheduler").environment.build()
    cluster.lead()
    imports(cluster.host("i-worker").follow())


def test_an_environment_with_edited_packages_is_not_shared(cluster: Cluster) -> None:
    """Later runs would have them too, by the name of a lock that says nothing of them."""
    host = cluster.host("i-scheduler")
    host.environment.build()
    (host.environment.folder / EDITED).mkdir()
    host.lead()
    eventually(lambda: cluster.manifest().get("state") == "separate")
    assert "edited" in cluster.manifest()["reason"]
    assert "Contents" not in cluster.s3.list_objects_v2(Bucket=BUCKET, Prefix="environments/")
    imports(cluster.host("i-worker").follow())


def test_what_can_not_be_built_fails_everywhere_with_the_reason(cluster: Cluster) -> None:
    cluster.lock = "absent==1.0\n"
    with pytest.raises(EnvironmentFailed, match="absent"):
        cluster.host("i-scheduler").lead()
    asked = list(cluster.asked)
    with pytest.raises(EnvironmentFailed, match=r"scheduler's host could not build.*(?s:.)*absent"):
        cluster.host("i-worker").follow()
    assert cluster.asked == asked


def test_what_a_stop_has_deleted_does_not_come_back(cluster: Cluster) -> None:
    host = cluster.host("i-scheduler")
    cluster.s3.delete_object(Bucket=BUCKET, Key="clusters/one/run.json")
    host.lead()
    eventually(lambda: any("the run has ended" in line for line in cluster.logs["i-scheduler"]))
    assert cluster.manifest()["state"] == "building"


def test_waiting_ends_when_the_host_is_asked_to_stop(cluster: Cluster) -> None:
    events = EventQueue()
    events.put(Stop("test"))
    with pytest.raises(StopRequested):
        cluster.host("i-worker", events=events).follow()


def _exchanged(cluster: Cluster) -> None:
    planted = io.BytesIO()
    with tarfile.open(fileobj=planted, mode="w") as archive:
        for name in (*MARKS, f"lib/python{PYTHON}/site-packages/probe.py"):
            entry = tarfile.TarInfo(name)
            code = b"OWN = False"
            entry.size = len(code)
            archive.addfile(entry, io.BytesIO(code))
    body = planted.getvalue().ljust(cluster.manifest()["archive"]["size"], b"\0")
    cluster.s3.put_object(Bucket=BUCKET, Key=cluster.archive(), Body=body)


def _gone(cluster: Cluster) -> None:
    cluster.s3.delete_object(Bucket=BUCKET, Key=cluster.archive())


def _shorter(cluster: Cluster) -> None:
    cluster.s3.put_object(Bucket=BUCKET, Key=cluster.archive(), Body=b"short")


def _next_run(cluster: Cluster, folder: Path) -> Cluster:
    """Return the next run of the cluster, or the first one of another, on new machines."""
    built = EnvironmentArchive.read(cluster.manifest()["archive"])
    cluster.objects.write_document(MANIFEST, {"format": 1})
    return replace(
        cluster,
        folder=folder,
        run_id="run-2",
        key="-----BEGIN run 2",
        built=built,
        logs={},
        notes=[],
    )


def test_the_next_run_builds_nothing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lead()
    later, asked = _next_run(cluster, tmp_path / "later"), len(cluster.asked)
    # No host waits for the scheduler's.
    imports(later.host("i-worker").follow())
    imports(later.host("i-scheduler").lead())
    assert len(cluster.asked) == asked
    said = EnvironmentManifest.read(later.manifest())
    assert said.archive == later.built
    assert said.is_proven(later.key.encode(), "run-2", sha256_of(LOCK.encode()))


@pytest.mark.parametrize("change", [_exchanged, _gone, _shorter])
def test_what_an_earlier_run_has_built_is_built_again_if_it_is_not_there(
    cluster: Cluster, tmp_path: Path, change: Callable[[Cluster], None]
) -> None:
    cluster.lead()
    change(cluster)
    later = _next_run(cluster, tmp_path / "later")
    imports(later.lead())
    imports(later.host("i-worker").follow())
    said = EnvironmentManifest.read(later.manifest())
    assert said.archive not in (None, later.built)
    assert bool(later.notes) == (change is not _gone)


def _broken_off(cluster: Cluster) -> None:
    """Have S3 give the first two thirds of the archive alone."""
    size, whole = cluster.manifest()["archive"]["size"], cluster.s3.get_object

    def get_object(**asked: Any) -> Any:
        first = asked.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
        if int(first) > size * 2 // 3:
            raise ResponseStreamingError(error="Connection broken")
        return whole(**asked)

    cluster.s3.get_object = get_object


@pytest.mark.parametrize("change", [_exchanged, _gone, _shorter, _broken_off])
def test_an_archive_that_is_not_the_one_is_not_used(
    cluster: Cluster, change: Callable[[Cluster], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.lead()
    change(cluster)
    # It comes in many parts: some are unpacked before the last one is there.
    monkeypatch.setattr(object_stream, "PART_BYTES", 4096)
    asked = len(cluster.asked)
    host = cluster.host("i-worker")
    python = host.follow()
    imports(python)
    assert len(cluster.asked) > asked
    (note,) = cluster.notes
    assert "was not used" in note
    # Nothing of it is left, also where a host program is started again.
    folder = host.environment.folder
    assert [path for path in folder.parent.iterdir() if path.is_dir()] == [folder]
    assert imports(cluster.host("i-worker").follow()).startswith(str(folder))


def _planted(cluster: Cluster, **more: str) -> None:
    """Write an archive of other code, and a manifest that leads to it, as far as others can."""
    stranger = replace(cluster, **more, logs={}, notes=[])
    archive = EnvironmentArchive("environments/one/x.tar", 9, "0" * 64)
    found = EnvironmentManifest(stranger.run_id, sha256_of(stranger.lock.encode()), READY, archive)
    proven = found.proven(stranger.key.encode())
    said = proven if more else replace(proven, archive=replace(archive, size=10))
    cluster.objects.write_document(MANIFEST, said.to_document())


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="changed after it was proven"),
        pytest.param({"key": "-----BEGIN another key"}, id="another key"),
        pytest.param({"run_id": "run-0"}, id="an earlier run"),
        pytest.param({"lock": "other==1.0\n"}, id="another lock"),
    ],
)
def test_what_others_say_of_an_environment_counts_as_nothing(
    cluster: Cluster, more: dict[str, str]
) -> None:
    _planted(cluster, **more)
    cluster.objects.write_document(SCHEDULER, {"format": 1, "run_id": cluster.run_id})
    python = cluster.host("i-worker", Timing(environment_share_seconds=0.0)).follow()
    imports(python)
    assert any("no message from the scheduler's host" in line for line in cluster.logs["i-worker"])


@pytest.mark.parametrize(
    "document",
    [
        {"format": 2},
        {"format": 1},
        {"format": 1, "run_id": 3, "lock_sha256": "", "state": "ready"},
        {"format": 1, "run_id": "run-1", "lock_sha256": "", "state": "ready", "proof": "ü"},
    ],
)
def test_a_manifest_that_can_not_be_read_counts_as_nothing(
    cluster: Cluster, document: dict[str, Any]
) -> None:
    cluster.objects.write_document(MANIFEST, document)
    cluster.objects.write_document(SCHEDULER, {"format": 1, "run_id": cluster.run_id})
    imports(cluster.host("i-worker", Timing(environment_share_seconds=0.0)).follow())


def test_a_manifest_that_is_too_large_counts_as_nothing(cluster: Cluster) -> None:
    cluster.lead()
    body = json.dumps(cluster.manifest()).encode().ljust(MOST_DOCUMENT_BYTES + 1)
    cluster.s3.put_object(Bucket=BUCKET, Key=f"clusters/one/{MANIFEST}", Body=body)
    cluster.objects.write_document(SCHEDULER, {"format": 1, "run_id": cluster.run_id})
    asked = len(cluster.asked)
    imports(cluster.host("i-worker", Timing(environment_share_seconds=0.0)).follow())
    assert len(cluster.asked) > asked
    with pytest.raises(ConfigInvalid, match="too large"):
        cluster.objects.read_document(MANIFEST)


def test_an_environment_that_is_too_large_is_not_shared(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MOST_ARCHIVE_BYTES", 100)
    imports(cluster.host("i-scheduler").lead())
    eventually(lambda: cluster.manifest().get("state") == "separate")
    assert "1 to 100 bytes" in cluster.manifest()["reason"]
    with pytest.raises(ValueError, match="1 to 100 bytes"):
        EnvironmentArchive.read({"key": "environments/one/x.tar", "size": 101, "sha256": ""})


@pytest.mark.parametrize("body", [b'{"format": 1, "run_id": "run-0"}', b"no JSON", b"[]", b"{}"])
def test_an_address_of_an_earlier_run_or_none_ends_no_wait(cluster: Cluster, body: bytes) -> None:
    cluster.s3.put_object(Bucket=BUCKET, Key=f"clusters/one/{SCHEDULER}", Body=body)
    timing = Timing(environment_share_seconds=0.0, environment_deadline_seconds=1.0)
    imports(cluster.host("i-worker", timing).follow())
    log = cluster.logs["i-worker"]
    assert any("nothing was ready within" in line for line in log)
    # What can't be read is said once.
    assert sum(f"one/{SCHEDULER}" in line for line in log) == (b"run-0" not in body)


def test_where_it_can_not_be_sent_each_builds_its_own(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, **_: Any) -> None:
        raise OSError("no room in the bucket")

    monkeypatch.setattr(cluster.objects, "upload", refuse)
    imports(cluster.host("i-scheduler").lead())
    eventually(lambda: cluster.manifest().get("state") == "separate")
    imports(cluster.host("i-worker").follow())
    assert any("no room in the bucket" in line for line in cluster.logs["i-worker"])


def test_without_a_right_to_the_environment_each_builds_its_own(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(name: str, *_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": name}}, "GetObject")

    for method in ("read_document", "write_document", "upload"):
        monkeypatch.setattr(cluster.objects, method, deny)
    imports(cluster.host("i-scheduler").lead())
    imports(cluster.host("i-worker").follow())
    assert any("can't be read" in line for line in cluster.logs["i-worker"])
    eventually(lambda: any("can't be shared" in line for line in cluster.logs["i-scheduler"]))


def test_a_failure_says_no_secret(cluster: Cluster) -> None:
    cluster.lock = "absent==1.0\n"
    with pytest.raises(EnvironmentFailed):
        cluster.host("i-scheduler").lead()
    said = cluster.manifest()
    assert said["state"] == FAILED
    assert KEY not in str(said)
