"""The host program's parts that need no AWS and no Dask."""

from __future__ import annotations

import http.server
import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_host import states
from terradask_host.aws import Aws
from terradask_host.child import DaskChild, child_environ
from terradask_host.config import HostConfig, Paths, load_config, parse_document
from terradask_host.errors import ConfigInvalid, HostError, MetadataUnavailable, RunMissing
from terradask_host.keys import write_keys
from terradask_host.launch_documents import prepare_document, scheduler_document, worker_document
from terradask_host.logs import BATCH_BYTES, LogBook, take_batch
from terradask_host.mailbox import ChildEnded, ChildSaid, Mailbox, Stop, StopRequested
from terradask_host.metadata import Identity, InstanceMetadata
from terradask_host.objects import ClusterObjects, OwnReport, wait_for
from terradask_host.policy import Exit
from terradask_host.report import Reporter, build_report
from terradask_host.timing import TIMING_VARIABLE, Timing

IDENTITY = Identity(
    instance_id="i-1",
    private_address="10.64.16.7",
    public_address=None,
    zone="us-east-1a",
    cluster="etl",
    role="worker",
    group="workers",
)
HOST_JSON: dict[str, Any] = {
    "format": 1,
    "workspace": "default",
    "region": "us-east-1",
    "bucket": "b",
    "log_group": "/terradask/default",
    "wheel": {"key": "k", "sha256": "s"},
}


# ---- configuration


def write_host_json(root: Path, document: object) -> dict[str, str]:
    path = root / "etc/terradask/host.json"
    path.parent.mkdir(parents=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return {"TERRADASK_HOST_ROOT": str(root)}


def test_configuration_of_an_instance(tmp_path: Path) -> None:
    config = load_config(write_host_json(tmp_path, HOST_JSON))
    assert (config.workspace, config.region, config.bucket) == ("default", "us-east-1", "b")
    assert config.metadata_endpoint == "http://169.254.169.254"
    assert config.python is None
    assert config.timing == Timing()
    assert config.cpu_count >= 1
    assert config.memory_bytes > 2**20
    assert config.paths.keys == tmp_path / "run/terradask"


def test_without_a_root_paths_are_the_machines() -> None:
    assert str(Paths(Path("/")).host_json) == "/etc/terradask/host.json"


def test_the_environment_overrides(tmp_path: Path) -> None:
    environ = write_host_json(tmp_path, HOST_JSON) | {
        "TERRADASK_HOST_PYTHON": "/venv/bin/python",
        "TERRADASK_HOST_CPU_COUNT": "64",
        "TERRADASK_HOST_MEMORY_BYTES": "1024",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.64.0.9:1338",
        TIMING_VARIABLE: '{"retired_grace_seconds": 1}',
    }
    config = load_config(environ)
    assert (config.cpu_count, config.memory_bytes) == (64, 1024)
    assert config.python == Path("/venv/bin/python")
    assert config.metadata_endpoint == "http://127.64.0.9:1338"
    assert config.timing.retired_grace_seconds == 1


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "no JSON"),
        ([], "no JSON object"),
        (HOST_JSON | {"format": 2}, "format"),
        ({k: v for k, v in HOST_JSON.items() if k != "bucket"}, "bucket"),
        (HOST_JSON | {"region": 3}, "region"),
    ],
)
def test_a_bad_host_json_is_explained(tmp_path: Path, document: object, message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        load_config(write_host_json(tmp_path, document))


def test_a_missing_host_json_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"host\.json can't be read"):
        load_config({"TERRADASK_HOST_ROOT": str(tmp_path)})


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_bad_machine_size_is_explained(tmp_path: Path, text: str) -> None:
    environ = write_host_json(tmp_path, HOST_JSON) | {"TERRADASK_HOST_CPU_COUNT": text}
    with pytest.raises(ConfigInvalid, match="TERRADASK_HOST_CPU_COUNT"):
        load_config(environ)


@pytest.mark.parametrize("text", ["{", "[]", '{"retired": 1}', '{"dask_restarts": "x"}', '{"dask_restarts": -1}'])
def test_bad_timing_is_explained(text: str) -> None:
    with pytest.raises(ConfigInvalid, match=TIMING_VARIABLE):
        Timing.from_environ({TIMING_VARIABLE: text})


def test_leaving_fits_into_the_units_time_to_stop() -> None:
    import terradask_modules

    unit = Path(terradask_modules.__file__).with_name("templates") / "terradask-host.service"
    stop = next(line for line in unit.read_text().splitlines() if line.startswith("TimeoutStopSec="))
    assert Timing().leave_seconds + 15 < float(stop.partition("=")[2])


def test_a_broken_secret_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse_document('{"ca": "-----BEGIN hush', "the secret x")
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_errors_survive_pickling() -> None:
    error = RunMissing("No run.", given="x", advice="Start it.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is RunMissing
    assert str(again) == "No run.\n  given: x\n  to do: Start it."


# ---- metadata


class _Service(http.server.BaseHTTPRequestHandler):
    facts: dict[str, str]
    tokens: list[str]

    def do_PUT(self) -> None:
        self.tokens.append(f"token-{len(self.tokens)}")
        self._answer(200, self.tokens[-1])

    def do_GET(self) -> None:
        if self.headers["X-aws-ec2-metadata-token"] != self.tokens[-1]:
            return self._answer(401, "")
        value = self.facts.get(self.path.removeprefix("/latest/"))
        return self._answer(404 if value is None else 200, value or "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[tuple[str, type[_Service]]]:
    class Service(_Service):
        pass

    Service.tokens = []
    Service.facts = {
        "meta-data/instance-id": "i-1",
        "meta-data/local-ipv4": "10.64.16.7",
        "meta-data/placement/availability-zone": "us-east-1a",
        "meta-data/tags/instance/terradask:cluster": "etl",
        "meta-data/tags/instance/terradask:role": "worker",
        "meta-data/tags/instance/terradask:group": "workers",
    }
    server = http.server.HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Service
    server.shutdown()
    server.server_close()
    thread.join()


def test_identity_comes_from_metadata_and_tags(service: tuple[str, type[_Service]]) -> None:
    endpoint, handler = service
    metadata = InstanceMetadata(endpoint)
    assert metadata.identity() == IDENTITY
    assert metadata.run_id() is None
    handler.facts["meta-data/tags/instance/terradask:run:id"] = "r"
    assert metadata.run_id() == "r"
    assert len(handler.tokens) == 1


def test_an_expired_token_is_renewed(service: tuple[str, type[_Service]]) -> None:
    endpoint, handler = service
    metadata = InstanceMetadata(endpoint)
    assert metadata.get("meta-data/instance-id") == "i-1"
    handler.tokens.append("somebody else's")
    assert metadata.get("meta-data/instance-id") == "i-1"


@pytest.mark.parametrize("name", ["cluster", "role", "group"])
def test_a_missing_tag_is_named(service: tuple[str, type[_Service]], name: str) -> None:
    endpoint, handler = service
    del handler.facts[f"meta-data/tags/instance/terradask:{name}"]
    with pytest.raises(MetadataUnavailable, match=f"terradask:{name}"):
        InstanceMetadata(endpoint).identity()


def test_a_role_that_is_none_is_refused(service: tuple[str, type[_Service]]) -> None:
    endpoint, handler = service
    handler.facts["meta-data/tags/instance/terradask:role"] = "manager"
    with pytest.raises(MetadataUnavailable, match="scheduler or worker"):
        InstanceMetadata(endpoint).identity()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "127.0.0.1", "https://127.0.0.1"])
def test_no_metadata_service_is_explained(endpoint: str) -> None:
    with pytest.raises(MetadataUnavailable, match="metadata service"):
        InstanceMetadata(endpoint).identity()


# ---- reports


def test_only_a_failure_carries_the_last_forty_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    history = [("booting", "t1"), ("failed", "t2")]
    failed = build_report(IDENTITY, run_id="r", history=history, reason="why", log_tail=lines)
    assert failed == {
        "format": 1,
        "run_id": "r",
        "instance_id": "i-1",
        "role": "worker",
        "group": "workers",
        "state": "failed",
        "reason": "why",
        "at": "t2",
        "history": [["booting", "t1"], ["failed", "t2"]],
        "private_address": "10.64.16.7",
        "log_tail": lines[-40:],
    }
    booting = build_report(IDENTITY, run_id=None, history=history[:1], reason=None, log_tail=lines)
    assert booting["log_tail"] == []


def test_reports_are_written_behind_the_hosts_back_and_the_last_one_counts() -> None:
    written: list[dict[str, Any]] = []
    gate = threading.Event()

    def write(report: dict[str, Any]) -> None:
        gate.wait()
        written.append(report)

    reporter = Reporter(write, IDENTITY, tail=list, complain=lambda _: None)
    started = time.monotonic()
    for state in (states.BOOTING, states.ENVIRONMENT, states.WAITING, states.WAITING):
        reporter.enter(state)
    assert time.monotonic() - started < 1.0
    gate.set()
    reporter.close()
    assert written[-1]["state"] == "waiting"
    assert [state for state, _ in written[-1]["history"]] == ["booting", "environment", "waiting"]
    assert len(written) <= 2


def test_a_report_that_can_not_be_written_is_tried_again() -> None:
    told: list[str] = []
    written: list[dict[str, Any]] = []

    def write(report: dict[str, Any]) -> None:
        if not told:
            raise OSError("no way")
        written.append(report)

    reporter = Reporter(write, IDENTITY, tail=list, complain=told.append)
    reporter.enter(states.BOOTING)
    reporter.close()
    assert len(told) == 1
    assert "no way" in told[0]
    assert len(written) == 1


# ---- logs


def test_batches_keep_cloudwatchs_limits() -> None:
    backlog = deque([(2, "b"), (1, "a")] + [(3, "x" * 30_000)] * 40)
    first = take_batch(backlog)
    assert first[:2] == [(1, "a"), (2, "b")]
    assert sum(len(line.encode()) + 26 for _, line in first) <= BATCH_BYTES
    assert len(first) + len(take_batch(backlog)) == 42
    assert not backlog
    assert len(take_batch(deque((n, "x") for n in range(10_001)))) == 10_000


def test_a_line_larger_than_a_batch_is_not_stuck() -> None:
    backlog = deque([(1, "x" * (BATCH_BYTES + 1))])
    assert len(take_batch(backlog)) == 1


def test_the_log_book_keeps_the_tail_and_gives_back() -> None:
    stream = io.StringIO()
    book = LogBook(stream)
    for number in range(50):
        book.write(f"line {number}")
    book.write("")
    book.say("two\nlines")
    assert book.tail()[-2:] == ["terradask-host: two", "terradask-host: lines"]
    assert len(book.tail()) == 40
    assert stream.getvalue().startswith("line 0\nline 1\n")
    batch = book.take()
    assert len(batch) == 52
    assert book.take() == []
    book.give_back(batch)
    assert book.take() == batch


# ---- events and waiting


def test_a_pause_keeps_what_is_said_and_ends_with_a_stop() -> None:
    mailbox = Mailbox()
    said = [ChildSaid(1, "imported"), ChildSaid(1, "running")]
    for event in said:
        mailbox.put(event)
    mailbox.pause(0.01)
    mailbox.put(Stop("SIGTERM"))
    with pytest.raises(StopRequested):
        mailbox.pause(60)
    assert [mailbox.next(0), mailbox.next(0), mailbox.next(0)] == [*said, None]


def test_a_signal_during_a_pause_ends_it() -> None:
    mailbox = Mailbox()
    before = signal.signal(signal.SIGUSR1, lambda *_: mailbox.put(Stop("SIGUSR1")))
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(StopRequested, match="SIGUSR1"):
            mailbox.pause(30)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_waiting_survives_errors_of_aws_and_tells_the_last() -> None:
    from botocore.exceptions import ClientError

    def refuse(waited_seconds: float) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")

    with pytest.raises(RunMissing, match=r"No run\.json within 0 s\..*AccessDenied") as caught:
        wait_for(refuse, what="run.json", advice="a", deadline_seconds=0.05, mailbox=Mailbox(), first_pause_seconds=0.01)
    assert isinstance(caught.value.__cause__, ClientError)


def test_waiting_does_not_hide_other_errors() -> None:
    def broken(waited_seconds: float) -> None:
        raise ConfigInvalid("format 9")

    with pytest.raises(ConfigInvalid):
        wait_for(broken, what="run.json", advice="a", deadline_seconds=5, mailbox=Mailbox())


# ---- keys


PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
SECRET = {
    "ca": PEM,
    "scheduler": {"cert": PEM, "key": PEM},
    "worker": {"cert": PEM, "key": PEM},
    "client": {"cert": PEM, "key": PEM},
}


def test_a_host_gets_its_own_keys_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "terradask"
    files = write_keys(SECRET, "worker", folder)
    write_keys(SECRET, "worker", folder)
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "worker.pem", "worker.key"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert files.key.read_text() == PEM


@pytest.mark.parametrize("secret", [{}, SECRET | {"worker": None}, SECRET | {"ca": "hush"}, {**SECRET, "worker": {}}])
def test_a_secret_without_keys_is_refused_without_repeating_it(tmp_path: Path, secret: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid, match="PEM") as caught:
        write_keys(secret, "worker", tmp_path)
    assert "hush" not in str(caught.value)


# ---- what Dask is told


def config(tmp_path: Path) -> HostConfig:
    environ = write_host_json(tmp_path, HOST_JSON)
    return load_config(environ | {"TERRADASK_HOST_CPU_COUNT": "8", "TERRADASK_HOST_MEMORY_BYTES": str(2**34)})


def cluster(**options: Any) -> dict[str, Any]:
    return {
        "scheduler": {"class": "distributed.Scheduler", "options": options, "port": 8786, "dashboard_port": 8787},
        "worker": {"class": "distributed.Nanny", "options": options},
    }


def test_options_decide_what_the_host_leaves_open(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path / "keys")
    scheduler = {"private_address": "tls://10.64.0.5:8786"}
    options = {"nthreads": 1, "memory_limit": "1 GiB", "resources": {"GPU": 1}}
    document = worker_document(config(tmp_path), IDENTITY, cluster(**options), scheduler, keys)
    arguments = document["arguments"]
    assert arguments["name"] == "i-1"
    assert (arguments["nthreads"], arguments["memory_limit"]) == (1, "1 GiB")
    assert arguments["resources"] == {"GPU": 1}
    assert document["security"]["require_encryption"] is True
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize("option", ["security", "protocol", "host", "dashboard_address"])
def test_options_that_the_host_sets_are_refused(tmp_path: Path, option: str) -> None:
    keys = write_keys(SECRET, "scheduler", tmp_path / "keys")
    with pytest.raises(ConfigInvalid, match=option):
        scheduler_document(IDENTITY, cluster(**{option: "x"}), keys, leave_seconds=1)
    with pytest.raises(ConfigInvalid, match=option):
        worker_document(config(tmp_path), IDENTITY, cluster(**{option: "x"}), {"private_address": "x"}, keys)


def test_the_prepared_configuration_names_files_and_holds_no_key(tmp_path: Path) -> None:
    keys = write_keys(SECRET, "worker", tmp_path)
    document = prepare_document("worker", {"dask_config": None, "environ": {"TOKEN": "hush"}}, keys, tmp_path)
    assert document["dask_config"] == {}
    assert "BEGIN" not in json.dumps(document)
    assert "hush" not in json.dumps(document)


def test_the_dask_process_does_not_see_the_host_programs_python(tmp_path: Path) -> None:
    base = {"VIRTUAL_ENV": "/opt/terradask/venv", "PATH": "/bin", "HOME": "/root", "AWS_REGION": "eu-west-1"}
    environ = child_environ(base, home=tmp_path, region="us-east-1", run_environ={"A": "1", "PATH": "/own"})
    assert "VIRTUAL_ENV" not in environ
    assert environ["HOME"] == str(tmp_path)
    assert environ["PATH"] == "/own"
    assert (environ["AWS_REGION"], environ["AWS_DEFAULT_REGION"]) == ("eu-west-1", "us-east-1")
    assert environ["A"] == "1"


# ---- the Dask process


def start_child(tmp_path: Path, mailbox: Mailbox, log: list[str]) -> DaskChild:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return DaskChild(Path(sys.executable), environ=environ, folder=tmp_path, mailbox=mailbox, log=log.append)


def drain(mailbox: Mailbox, number: int) -> tuple[list[str], Exit]:
    said: list[str] = []
    while (event := mailbox.next(30)) is not None:
        if isinstance(event, ChildEnded) and event.child == number:
            return said, event.end
        if isinstance(event, ChildSaid):
            said.append(event.event)
    raise AssertionError(f"no end; said {said}")


def test_a_process_that_can_not_start_says_why(tmp_path: Path) -> None:
    mailbox, log = Mailbox(), list[str]()
    child = start_child(tmp_path, mailbox, log)
    child.send({"role": "worker", "dask_config": {}, "host_config": {}})
    child.send({"class": "nowhere.Worker", "security": {}, "scheduler": "tls://127.0.0.1:9", "arguments": {}})
    said, end = drain(mailbox, child.number)
    child.kill()
    assert said == ["imported", "failed"]
    assert end.code == 1
    assert end.reason is not None
    assert "nowhere" in end.reason
    assert any("Traceback" in line for line in log)


def test_a_process_ends_when_the_host_program_goes(tmp_path: Path) -> None:
    mailbox = Mailbox()
    child = start_child(tmp_path, mailbox, [])
    assert child._process.stdin is not None
    child._process.stdin.close()
    said, end = drain(mailbox, child.number)
    assert (said, end.code) == ([], -signal.SIGKILL)
    child.kill()


def test_sending_to_a_process_that_is_gone_is_no_error(tmp_path: Path) -> None:
    child = start_child(tmp_path, Mailbox(), [])
    child.kill()
    child.send({"do": "leave"})


def test_an_unusable_python_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        DaskChild(Path("/nowhere/python"), environ={}, folder=tmp_path, mailbox=Mailbox(), log=lambda _: None)


# ---- imports


def test_the_agent_starts_without_boto3_dask_or_the_other_packages() -> None:
    code = "import sys, terradask_host.agent; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"boto3", "botocore", "dask", "distributed", "moto", "terradask", "terradask_modules", "terradask_stacks"}
    assert heavy.isdisjoint(loaded)


def test_the_launcher_sees_the_host_program_but_not_its_neighbours(tmp_path: Path) -> None:
    """On an instance the host program's packages are not the cluster's: only its own package is lent."""
    import terradask_host

    source = Path(terradask_host.__file__).parent
    lent = tmp_path / "site" / "terradask_host"
    lent.parent.mkdir()
    lent.symlink_to(source)
    (lent.parent / "neighbour.py").write_text("")
    code = (
        "import sys; sys.path = [p for p in sys.path if 'terradask' not in p];"
        f"sys.path.insert(0, {str(lent / 'preload')!r}); import launch; sys.path.pop(0);"
        "launch.load_package(); import terradask_host.preload.forward, importlib.util;"
        "print(importlib.util.find_spec('neighbour'))"
    )
    answer = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "None"


def test_host_errors_are_told_whole() -> None:
    error = HostError("It broke.", given=1, allowed="2", advice="Do.")
    assert str(error) == "It broke.\n  given: 1\n  allowed: 2\n  to do: Do."


class TestOwnReport:
    """A report that somebody deleted stays deleted."""

    @pytest.fixture
    def bucket(self, monkeypatch):
        from moto import mock_aws

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
        with mock_aws():
            aws = Aws("us-east-1")
            aws.client("s3").create_bucket(Bucket="workspace")
            yield aws

    def test_it_is_overwritten_but_never_brought_back(self, bucket):
        objects = ClusterObjects(bucket, "workspace", "etl")
        report = OwnReport(objects, "hosts/i-1.json")
        for state in ("booting", "running"):
            report.write({"format": 1, "state": state})
            assert objects.read_document("hosts/i-1.json")["state"] == state
        bucket.client("s3").delete_object(Bucket="workspace", Key="clusters/etl/hosts/i-1.json")
        for state in ("leaving", "left"):
            report.write({"format": 1, "state": state})
            assert objects.read("hosts/i-1.json") is None

    def test_an_answer_that_got_lost_is_no_deletion(self, bucket):
        objects = ClusterObjects(bucket, "workspace", "etl")
        report = OwnReport(objects, "hosts/i-1.json")
        report.write({"format": 1, "state": "booting"})
        objects.write_document("hosts/i-1.json", {"format": 1, "state": "starting"})
        report.write({"format": 1, "state": "running"})
        assert objects.read_document("hosts/i-1.json")["state"] == "running"
