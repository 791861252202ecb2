"""Logs of clusters on the embedded AWS: of hosts that run, were killed, could not boot, or are
gone.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from terradask import Cluster, Workspace
from terradask._aws.session import Aws
from terradask._observe.logs.lines import ClusterLogs
from terradask._observe.logs.reader import LogGroup, LogReader
from terradask.errors import AccessDenied, ClusterNotFound, EndpointUnreachable, InvalidInput
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe"


@pytest.fixture(scope="module")
def cluster(sim_environ: dict[str, str]) -> Iterator[Cluster]:
    with Cluster("talks", n_workers=2, wait_for_workers=True, max_workers=4) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster) as made:
        yield made


def speak(text: str) -> None:
    print(text)


def die(text: str) -> None:
    print(text)
    os.kill(os.getpid(), signal.SIGKILL)


def terradask(sim: Simulator, folder: Path, *arguments: str) -> Any:
    """Run the command from a folder that knows nothing of the cluster."""
    return in_this_process(*arguments, environ=sim.environ, folder=folder)


def line_with(read: Callable[[], Any], text: str) -> Any:
    return eventually(lambda: next((line for line in read() if text in line.text), None))


def speaking(logs: ClusterLogs) -> set[str]:
    """Return the hosts whose Dask has written something."""
    return {one.host for one in logs if one.level == "info" and "distributed." in one.text}


def test_boot_dask_and_tasks_of_every_host_are_there(cluster: Cluster, client: Client) -> None:
    client.submit(speak, "task speaks", pure=False).result()
    line = line_with(cluster.logs, "task speaks")
    run = Workspace.load().deployment("talks").run()
    assert (line.group, line.run, line.level) == ("workers", run.run_id, None)
    assert line.host in cluster.observed
    # Each host sends its own every few seconds.
    logs = eventually(
        lambda: told if speaking(told := cluster.logs()) >= cluster.observed else None
    )
    assert list(logs) == sorted(logs, key=lambda one: one.at)
    assert {one.group for one in logs} == {"scheduler", "workers"}
    for host, lines in logs.by_host().items():
        texts = [one.text for one in lines]
        assert "cloud-init: Cloud-init v. 22.2.2 running 'init'" in texts[0], host
        assert "terradask-boot: terradask-host.service starts" in texts
        assert any(one.level == "info" and "distributed." in one.text for one in lines)


def test_a_killed_workers_last_line_is_read_by_another_process_in_another_folder(
    cluster: Cluster, client: Client, sim: Simulator, tmp_path: Path
) -> None:
    doomed = sorted(cluster.observed)[0]
    workers = client.scheduler_info(n_workers=-1)["workers"].items()
    address = next(where for where, one in workers if one["name"] == doomed)
    future = client.submit(die, "last words", workers=[address], pure=False)
    line_with(lambda: cluster.logs(doomed), "last words")
    future.cancel()
    sim.kill_host(doomed)
    shown = terradask(sim, tmp_path, "logs", "talks", doomed, "--filter", "last words")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.rstrip().endswith(f" workers/{doomed} last words")
    run = Workspace.load().deployment("talks").run()
    assert shown.stderr == f"run {run.run_id}\n"
    # As labels of narrow terminals show it, and a prefix is none.
    assert terradask(sim, tmp_path, "logs", "talks", f"workers/…{doomed[-6:]}").stdout
    assert terradask(sim, tmp_path, "logs", "talks", doomed[:9]).returncode == 2
    eventually(lambda: len(cluster.observed) == 2 and doomed not in cluster.observed)
    # Dead hosts are among Dask's own.
    logs = eventually(lambda: (found := cluster.get_logs()).keys() >= cluster.observed and found)
    assert set(logs) >= {"Scheduler", doomed}
    assert "last words" in logs[doomed]


def test_get_logs_has_the_order_of_the_seeds(cluster: Cluster, client: Client) -> None:
    # What hosts have written takes a moment to be there.
    eventually(lambda: cluster.get_logs().keys() >= cluster.observed)
    assert list(cluster.get_logs(True, False)) == ["Scheduler"]
    workers = cluster.get_logs(False, True)
    assert "Scheduler" not in workers
    assert set(workers) >= cluster.observed
    one = sorted(cluster.observed)[0]
    assert list(cluster.get_logs(scheduler=False, workers=[one])) == [one]
    assert list(cluster.get_logs(False, False, cluster=True)) == ["Cluster"]
    assert cluster.get_logs(False, False) == {}
    assert type(cluster.get_logs(True, False)["Scheduler"]).__name__ == "Log"
    with pytest.raises(InvalidInput, match=r"no such host.*(?s:.)*scheduler, workers, i-"):
        cluster.get_logs(workers=["i-00000000000000000"])


def test_what_tasks_print_changes_no_terminal(
    cluster: Cluster, client: Client, sim: Simulator, tmp_path: Path
) -> None:
    client.submit(speak, f"<b>mark</b>{ESCAPE}", pure=False).result()
    line = line_with(cluster.logs, "<b>mark")
    assert line.text == f"<b>mark</b>{ESCAPE}"
    shown = terradask(sim, tmp_path, "logs", "talks", "--filter", "mark").stdout
    for text in (
        shown,
        str(cluster.logs()),
        cluster.logs()._repr_html_(),
        *cluster.get_logs().values(),
    ):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "<b>mark</b>\N{REPLACEMENT CHARACTER}]0;owned" in shown
    assert "<b>" not in cluster.logs()._repr_html_()
    as_json = terradask(sim, tmp_path, "logs", "talks", "--filter", "mark", "--json").stdout
    assert as_json.isascii()
    assert not {"\x1b", "\x07"} & set(as_json)
    (found,) = [json.loads(each) for each in as_json.splitlines()]
    assert found["text"] == line.text
    assert found == line.as_dict()


def test_levels_times_and_numbers_select(
    cluster: Cluster, client: Client, sim: Simulator, tmp_path: Path
) -> None:
    def warn() -> None:
        import logging

        logging.getLogger("distributed.worker").error("it burns", exc_info=ValueError("hot"))

    client.submit(speak, "before it burns", pure=False).result()
    line_with(cluster.logs, "before it burns")
    client.submit(warn, pure=False).result()
    line_with(cluster.logs, "- it burns")
    shown = terradask(sim, tmp_path, "logs", "talks", "workers", "--level", "error", "--json")
    texts = [json.loads(each)["text"] for each in shown.stdout.splitlines()]
    assert any("it burns" in text for text in texts)
    assert "ValueError: hot" in texts
    assert {line.level for line in cluster.logs(level="warning")} <= {
        "warning",
        "error",
        "critical",
    }

    def newest() -> list[list[str]]:
        both = cluster.logs()[-3:], cluster.logs(tail=3)
        return [[line.text for line in lines] for lines in both]

    # Unless another line came in between.
    eventually(lambda: operator.eq(*newest()), explain=lambda: repr(newest()))
    assert terradask(sim, tmp_path, "logs", "talks", "--tail", "3").stdout.count("\n") == 3
    assert len(cluster.logs("scheduler", tail=2)) == 2
    # All of it was written lately.
    assert len(cluster.logs(until="1d")) == 0
    assert (
        terradask(sim, tmp_path, "logs", "talks", "--until", "1d").stderr
        == "talks: no such lines\n"
    )
    assert len(cluster.logs(since="1h")) >= 3
    wrong = terradask(sim, tmp_path, "logs", "talks", "--since", "yesterday")
    assert wrong.returncode == 2
    assert "allowed: how long ago" in wrong.stderr


def test_unknown_names_are_answered_with_those_there_are(
    cluster: Cluster, sim: Simulator, tmp_path: Path
) -> None:
    unknown = terradask(sim, tmp_path, "logs", "nothing")
    assert unknown.returncode == 6
    assert "allowed: a cluster with logs: " in unknown.stderr
    assert "talks" in unknown.stderr
    group = terradask(sim, tmp_path, "logs", "talks", "gpu")
    assert group.returncode == 2
    assert "allowed: scheduler, workers, i-" in group.stderr
    run = Workspace.load().deployment("talks").run()
    other = terradask(sim, tmp_path, "logs", "talks", "--run", "20200101T000000Z-abcdef")
    assert other.returncode == 2
    assert run.run_id in other.stderr
    assert terradask(sim, tmp_path, "logs", "talks", "--run", run.run_id, "--tail", "1").stdout


def test_the_right_is_in_the_policies_of_those_who_run_clusters(
    cluster: Cluster, sim: Simulator, policies: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    for caller in ("user", "ongoing"):
        environ = sim.environ_of(caller, *policies[caller])
        for words in ((), ("scheduler",), (sorted(cluster.observed)[0],)):
            shown = in_this_process(
                "logs", "talks", *words, "--tail", "1", environ=environ, folder=tmp_path
            )
            assert shown.returncode == 0, shown.stderr
            assert shown.stdout
    with sim.acting_as("ci", *policies["ci"]), pytest.raises(AccessDenied) as denied:
        Workspace.load().deployment("talks").logs()
    assert denied.value.action in ("logs:DescribeLogStreams", "logs:FilterLogEvents")
    assert "terradask iam user" in str(denied.value)


def test_logs_can_be_followed_until_the_run_ends_and_read_when_all_is_gone(
    sim: Simulator, sim_environ: dict[str, str], tmp_path: Path
) -> None:
    seen: list[str] = []
    with (
        # What was shipped late, as CloudWatch shows it late, is there all the same.
        sim.delay_logs(3.0),
        Cluster("shortly", n_workers=1, wait_for_workers=True, shutdown_on_close=True) as made,
    ):
        lines = Workspace.load().deployment("shortly").iter_logs("workers", follow=True)
        thread = threading.Thread(target=lambda: seen.extend(line.text for line in lines))
        thread.start()
        with Client(made) as client:
            eventually(lambda: seen)
            client.submit(speak, "while followed", pure=False).result()
        eventually(
            lambda: "while followed" in seen,
            explain=lambda: (
                f"followed: {seen[-9:]}\nthere: {[*made.logs('workers', tail=9)]}\n"
                f"the thread {'runs' if thread.is_alive() else 'has ended'}"
            ),
        )
        assert thread.is_alive()
    thread.join(120)
    assert not thread.is_alive()
    assert seen.count("while followed") == 1
    assert not Workspace.load().deployment("shortly").exists
    shown = terradask(sim, tmp_path, "logs", "shortly", "--filter", "while|left")
    assert "while followed" in shown.stdout
    assert "terradask-host: left" in shown.stdout
    # It was closed before: there is nothing to wait for.
    followed = terradask(sim, tmp_path, "logs", "shortly", "workers", "--follow")
    assert "while followed" in followed.stdout
    # The object, too, after its end.
    assert "while followed" in str(made.logs(pattern="while"))
    first = made.logs(tail=1)[0].run
    with Cluster("shortly", n_workers=0, wait_for_workers=False) as again:
        line_with(again.logs, "Scheduler at")
        assert {line.run for line in again.logs()} == {again.logs(tail=1)[0].run} != {first}
        older = terradask(sim, tmp_path, "logs", "shortly", "--run", first, "--filter", "while")
        assert "while followed" in older.stdout
        assert {line.run for line in again.logs(run="all")} >= {first}


def test_a_cluster_that_never_was_has_no_logs(sim_environ: dict[str, str]) -> None:
    with pytest.raises(ClusterNotFound, match="no logs of a cluster 'never'"):
        Workspace.load().deployment("never").logs()


async def test_an_asynchronous_cluster_awaits_its_logs(
    cluster: Cluster, sim_environ: dict[str, str]
) -> None:
    line_with(lambda: cluster.logs("scheduler"), "listening")
    async with Cluster("talks", asynchronous=True, attach=True) as attached:
        assert (await attached.logs("scheduler", tail=1))[0].group == "scheduler"
        assert list(await attached.get_logs(True, False)) == ["Scheduler"]


def test_a_boot_that_fails_says_so_in_the_log_of_a_host_that_never_joined(
    cluster: Cluster, sim: Simulator
) -> None:
    before = set(cluster.observed)
    with broken_wheel(sim):
        cluster.scale(3)
        line = line_with(lambda: cluster.logs(level="error"), "boot.sh failed")
        assert line.text.startswith("terradask-boot: ERROR: boot.sh failed: ")
        assert "another checksum" in line.text
        assert line.run == Workspace.load().deployment("talks").run().run_id
        texts = [one.text for one in cluster.logs(line.host)]
        assert "cloud-init: Cloud-init v. 22.2.2 running 'modules:final'" in "\n".join(texts)
        assert "boot.sh failed" in cluster.get_logs()[line.host]
        assert line.host not in before
        cluster.scale(2)
    eventually(lambda: len(cluster.requested) == len(before))


@contextlib.contextmanager
def broken_wheel(sim: Simulator) -> Iterator[None]:
    """Put something else in the place of the host program's wheel for a while."""
    with contextlib.closing(sim.client("s3")) as s3:
        bucket = Workspace.load().bucket
        listed = s3.list_objects_v2(Bucket=bucket, Prefix="host/")["Contents"]
        (key,) = [one["Key"] for one in listed if "/terradask_host-" in one["Key"]]
        content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        s3.put_object(Bucket=bucket, Key=key, Body=b"other code")
        try:
            yield
        finally:
            s3.put_object(Bucket=bucket, Key=key, Body=content)


def test_throttled_calls_are_repeated_and_at_last_an_error(
    cluster: Cluster, sim: Simulator
) -> None:
    everything = [line.text for line in cluster.logs("scheduler")]
    with sim.throttle(0.1):
        # A call of FilterLogEvents every two seconds.
        again = [line.text for line in cluster.logs("scheduler")]
    assert again[: len(everything)] == everything
    aws = Aws(sim.info.region, attempts=1)
    with sim.throttle(1e-6):
        hurried = LogReader(LogGroup(aws, "default", busy_seconds=0), "talks")
        with pytest.raises(EndpointUnreachable, match=r"(?s)call that reads.*Rate exceeded"):
            [hurried.last_run() for _ in range(3)]


def test_a_command_that_follows_ends_at_ctrl_c_and_when_its_reader_has_seen_enough(
    cluster: Cluster, sim: Simulator, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "terradask", "logs", "talks", "scheduler"]
    where = {"env": sim.environ, "cwd": tmp_path, "stdout": subprocess.PIPE, "text": True}
    following = subprocess.Popen([*command, "--follow"], stderr=subprocess.PIPE, **where)
    assert following.stdout is not None
    assert following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, errors = following.communicate(timeout=PROCESS_SECONDS)
    assert following.returncode == 130
    assert errors.split()[-1:] == ["interrupted"]
    piped = subprocess.run(
        f"{shlex.join(command)} | head -n 1",
        shell=True,
        check=False,
        stderr=subprocess.PIPE,
        timeout=PROCESS_SECONDS,
        **where,
    )
    assert piped.stdout.count("\n") == 1
    assert piped.stderr.startswith("run ")
    assert piped.stderr.count("\n") == 1


def test_hosts_and_groups_are_completed(cluster: Cluster, sim: Simulator, tmp_path: Path) -> None:
    asked = {"_TERRADASK_COMPLETE": "bash_complete", "COMP_WORDS": "terradask logs talks "}
    done = subprocess.run(
        [Path(sys.executable).with_name("terradask")],
        env={**sim.environ, **asked, "COMP_CWORD": "3"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_SECONDS,
    )
    words = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert words >= {"scheduler", "workers", *cluster.observed}
