"""Private variables and credentials of a user's, in one cluster: who has them, what they open, and
where nothing is to be found.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import cloudpickle
import dask
import pytest
from botocore.exceptions import ClientError
from distributed import Client

from terradask import Cluster
from terradask._aws.credentials import LentCredentials, lend
from terradask._dask import attaching, secrets
from terradask.errors import ClusterError, SchedulerUnreachable
from terradask_simulator import Simulator

from ..kept_providers import UNKEPT_VARIABLE
from ..waiting import HANG_SECONDS, eventually
from .lent_user import ARN, BUCKET, user_of

pytestmark = [pytest.mark.simulator, pytest.mark.slow, pytest.mark.life]

VALUE = "a-planted-value-4711"


@dataclass
class Lent:
    """The cluster, and what its user lent it."""

    cluster: Cluster
    #: All that was ever lent: what must not be found.
    sessions: list[LentCredentials]
    #: Lent next, in place of a session.
    lapsed: list[LentCredentials]
    #: The user's own access key, which stays here.
    secret_key: str


@pytest.fixture(scope="module")
def user(sim: Simulator, policies: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, str]]:
    with user_of(sim, policies) as variables:
        yield variables


@pytest.fixture(scope="module")
def lent(sim: Simulator, user: dict[str, str]) -> Iterator[Lent]:
    """A cluster that she makes and lends her rights to. Its hosts log all that Dask's
    servers hear.
    """
    sessions: list[LentCredentials] = []

    lapsed: list[LentCredentials] = []

    def noted(*args: Any) -> LentCredentials:
        if lapsed:
            return lapsed.pop()
        sessions.append(lend(*args))
        return sessions[-1]

    with (
        sim.applied(),
        pytest.MonkeyPatch.context() as patch,
        dask.config.set({"logging": {"distributed.core": "debug"}}),
    ):
        for name, value in user.items():
            patch.setenv(name, value)
        # It would have her credentials after Terraform's end.
        patch.setenv(UNKEPT_VARIABLE, "1")
        patch.setattr(attaching, "lend", noted)
        with Cluster(
            "lent",
            n_workers=1,
            wait_for_workers=True,
            credentials="local",
            credentials_duration_seconds=900,
        ) as cluster:
            yield Lent(cluster, sessions, lapsed, user["AWS_SECRET_ACCESS_KEY"])


@pytest.fixture(scope="module", autouse=True)
def _functions_travel_whole() -> Iterator[None]:
    """Hosts have no tests to import."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def client(lent: Lent) -> Iterator[Client]:
    with Client(lent.cluster) as client:
        yield client


def who() -> tuple[str, str]:
    """Return whom AWS takes a task for, in a session of its own, and by which access key."""
    session = boto3.Session()
    with contextlib.closing(session.client("sts")) as sts:
        return str(sts.get_caller_identity()["Arn"]), str(session.get_credentials().access_key)


def read_by_every_sdk() -> dict[str, bytes]:
    """Return what a task reads: with boto3, with aiobotocore, and with arrow's C++ SDK."""
    import pyarrow.fs
    import s3fs

    with contextlib.closing(boto3.Session().client("s3")) as s3:
        found = {"boto3": s3.get_object(Bucket=BUCKET, Key="table")["Body"].read()}
    found["s3fs"] = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False).cat(
        f"{BUCKET}/table"
    )
    host = os.environ["AWS_ENDPOINT_URL"].partition("://")[2]
    arrow = pyarrow.fs.S3FileSystem(endpoint_override=host, scheme="http", region="us-east-1")
    with arrow.open_input_stream(f"{BUCKET}/table") as stream:
        found["arrow"] = stream.read()
    return found


def in_a_task(client: Client, function: Callable[[], Any]) -> Any:
    # In a graph Dask sends functions of modules by name all the same.
    def task() -> Any:
        return function()

    return client.submit(task, pure=False).result()


def variable(name: str = "PLANTED") -> str | None:
    return os.environ.get(name)


def variables_of_all(client: Client) -> list[str | None]:
    """Return the variable's value in the scheduler's process and in those of the workers."""
    return [client.run_on_scheduler(variable), *client.run(variable).values()]


def test_tasks_have_the_users_rights_and_hosts_their_roles(
    lent: Lent, client: Client, sim: Simulator
) -> None:
    (session,) = lent.sessions
    assert in_a_task(client, who) == (ARN, session.access_key_id)
    assert client.run_on_scheduler(who) == (ARN, session.access_key_id)
    assert in_a_task(client, read_by_every_sdk) == dict.fromkeys(
        ("boto3", "s3fs", "arrow"), b"hers"
    )
    # What her rights don't hold is refused.
    with pytest.raises(ClientError, match="AccessDenied"):
        client.submit(
            lambda: boto3.Session().client("s3").put_object(Bucket=BUCKET, Key="table", Body=b""),
            pure=False,
        ).result()
    by_role = sim.requests()["arn:aws:iam::123456789012:role/terradask-default-worker"]
    assert not [one for one in by_role if BUCKET in one.request.resource]
    assert [one for one in by_role if one.request.action == "s3:PutObject"]


def test_without_credentials_tasks_have_the_role(client: Client) -> None:
    def as_a_worker_has_it_by_default() -> str:
        kept = {
            name: os.environ.pop(name)
            for name in list(os.environ)
            if name.startswith("AWS_CONTAINER_")
        }
        try:
            return who()[0]
        finally:
            os.environ.update(kept)

    assert ":assumed-role/terradask-default-worker/i-" in in_a_task(
        client, as_a_worker_has_it_by_default
    )


def test_private_variables_reach_workers_that_are_there_that_come_and_that_come_back(
    lent: Lent, client: Client
) -> None:
    lent.cluster.send_private_envs({"PLANTED": VALUE})
    assert variables_of_all(client) == [VALUE] * 2
    lent.cluster.scale(2)
    lent.cluster.wait_for_workers(2, timeout=HANG_SECONDS)
    assert variables_of_all(client) == [VALUE] * 3
    before = set(client.run(os.getpid).values())
    client.restart()
    assert not before & set(client.run(os.getpid).values())
    assert variables_of_all(client) == [VALUE] * 3
    assert [arn for arn, _ in client.run(who).values()] == [ARN] * 2
    lent.cluster.send_private_envs({"ANOTHER": VALUE[::-1]})
    assert variables_of_all(client) == [VALUE] * 3
    assert set(client.run(variable, "ANOTHER").values()) == {VALUE[::-1]}


def test_credentials_that_lapse_say_so_and_new_ones_take_their_place(
    lent: Lent, client: Client
) -> None:
    lent.lapsed.append(
        replace(
            lent.sessions[-1],
            expires_at=datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1),
        )
    )
    lent.cluster.send_credentials()
    with pytest.raises(
        Exception, match=r"that a Cluster object sent here expired at .* Attach again"
    ):
        in_a_task(client, who)
    lent.cluster.send_credentials()
    assert in_a_task(client, who) == (ARN, lent.sessions[-1].access_key_id)


def test_credentials_are_sent_anew_in_time(
    lent: Lent, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_a_session(dask_worker: Any) -> None:
        dask_worker.session = boto3.Session()
        dask_worker.session.get_credentials().get_frozen_credentials()

    def key_of_held_session(dask_worker: Any) -> str:
        return str(dask_worker.session.get_credentials().get_frozen_credentials().access_key)

    client.run(hold_a_session)
    known = len(lent.sessions)
    # As if half of their time was over.
    monkeypatch.setattr(
        secrets,
        "next_refresh",
        lambda *_: datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.2),
    )
    lent.cluster.sync(lent.cluster._attached.secrets.stop_refreshing)
    lent.cluster.send_credentials(automatic_refresh=True)
    eventually(lambda: len(lent.sessions) > known + 2)
    monkeypatch.undo()
    # botocore asks again within the last 15 minutes, which are all that these last.
    keys = set(client.run(key_of_held_session).values())
    # Another may have been sent meanwhile.
    assert keys <= {session.access_key_id for session in lent.sessions[known:]}


def test_nothing_of_it_is_to_be_found(
    lent: Lent, client: Client, sim: Simulator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    planted = [VALUE, VALUE[::-1], lent.secret_key]
    planted += [
        part
        for session in lent.sessions
        for part in (session.secret_access_key, session.session_token)
    ]
    client.dump_cluster_state(str(tmp_path / "dump"), format="yaml")
    found = {}
    for path in (*tmp_path.rglob("*"), *sim.state_dir.rglob("*")):
        # Hosts remove files of theirs meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                found[str(path)] = path.read_bytes()
    for process in Path("/proc").iterdir():
        for name in ("environ", "cmdline"):
            # Others come and go, and some are none of ours.
            with contextlib.suppress(OSError):
                found[f"{process.name} {name}"] = (process / name).read_bytes()
    with contextlib.closing(sim.client("s3")) as s3, contextlib.closing(sim.client("logs")) as logs:
        bucket = "terradask-default-123456789012-us-east-1"
        for listed in s3.list_objects_v2(Bucket=bucket)["Contents"]:
            found[listed["Key"]] = s3.get_object(Bucket=bucket, Key=listed["Key"])["Body"].read()
        group = "/terradask/default"
        for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]:
            events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])[
                "events"
            ]
            found[stream["logStreamName"]] = json.dumps(events).encode()
    found["scheduler_info"] = repr(
        (client.scheduler_info(n_workers=-1), lent.cluster.scheduler_info, vars(lent.cluster))
    ).encode()
    found["plugins"] = repr(
        client.run(lambda dask_worker: repr([vars(each) for each in dask_worker.plugins.values()]))
    ).encode()
    found["kept for later workers"] = repr(
        client.run_on_scheduler(lambda dask_scheduler: repr(dask_scheduler.worker_plugins))
    ).encode()
    found["events"] = repr((lent.cluster.events(), client.get_events())).encode()
    found["here"] = caplog.text.encode()
    log = b"".join(content for name, content in found.items() if name.endswith("host.log"))
    assert b"Message from" in log, "Dask's messages were logged, or this proves little"
    assert b"terradask_command" in log
    assert [
        name for name, content in found.items() if any(each.encode() in content for each in planted)
    ] == []


def test_a_scheduler_in_anothers_place_is_sent_it_again(lent: Lent) -> None:
    with Client(lent.cluster) as client:
        scheduler = client.run_on_scheduler(os.getpid)
    os.kill(scheduler, signal.SIGKILL)

    def replaced() -> bool:
        try:
            # Changes nothing.
            lent.cluster.scale_up(0)
        except SchedulerUnreachable:
            return False
        except ClusterError:
            return True
        return False

    eventually(replaced)
    with Cluster.from_name("lent") as again, Client(again) as client:
        eventually(lambda: len(again.observed) == 2)
        eventually(lambda: variables_of_all(client) == [VALUE] * 3)
        arn, key = in_a_task(client, who)
        # The last ones may have been on their way when it died.
        assert (arn, key in {session.access_key_id for session in lent.sessions[-2:]}) == (
            ARN,
            True,
        )
