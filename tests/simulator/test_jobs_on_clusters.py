"""Jobs on the embedded AWS, by the command line and from Python: on clusters that run, are made for
them, lose hosts, end, and are gone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask import Cluster, Workspace
from terradask.errors import AccessDenied, JobLost, JobNotFound, JobTimeout
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import HANG_SECONDS, PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SECRET = "kein-Wort-davon-7731"


@pytest.fixture(scope="module")
def cluster(sim_environ: dict[str, str]) -> Iterator[Cluster]:
    with Cluster("jobs", n_workers=2, max_workers=3, wait_for_workers=True) as cluster:
        yield cluster


def begin(*arguments: str, folder: Path, **environ: str) -> subprocess.Popen[bytes]:
    """Start a command in a process of its own, and in a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "terradask", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, **environ},
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=PROCESS_SECONDS)
    return process.returncode, out, err


def test_a_command_runs_as_if_it_ran_here(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("from here\n")
    line = 'cat in.txt; printf "\\033[1m%s" "$WORD"; echo "$TOKEN" | wc -c; echo bad >&2; exit 7'
    code, out, err = end(
        begin(
            *("run", "--cluster", "jobs", "--file", "in.txt", "--env", "WORD=given"),
            *("--secret", "TOKEN", "--", "sh", "-c", line),
            folder=tmp_path,
            TOKEN=SECRET,
        )
    )
    # Byte by byte: this is no terminal.
    assert (code, out) == (7, f"from here\n\x1b[1mgiven{len(SECRET) + 1}\n".encode()), err
    assert b"bad\n" in err
    # The cluster goes on: it wasn't made for it.
    assert cluster.observed
    record = Workspace.load().deployment("jobs").job()
    assert (record.state, record.exit_code, record.environ) == ("failed", 7, ("WORD",))
    assert record.tasks[0].host in cluster.observed


def test_no_secret_and_no_variable_is_in_the_bucket_or_a_log(
    cluster: Cluster, sim: Simulator
) -> None:
    os.environ["PRIVATE_WORD"] = SECRET
    try:
        done = in_this_process(
            *("run", "-c", "jobs", "--secret", "PRIVATE_WORD", "--env", f"OTHER={SECRET}x"),
            *("--", "sh", "-c", 'test -n "$PRIVATE_WORD" && test -n "$OTHER"'),
        )
    finally:
        del os.environ["PRIVATE_WORD"]
    assert done.returncode == 0, done.stderr
    s3, bucket = sim.client("s3"), Workspace.load().bucket
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    listed = [one for page in pages for one in page["Contents"]]
    kept = [one["Key"] for one in listed if one["Key"].startswith("reports/jobs.jobs/")]
    assert kept
    for one in listed:
        content = s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
        assert SECRET.encode() not in content, one["Key"]
    assert SECRET not in str(cluster.logs(tail=None))


def test_a_detached_job_is_there_for_every_other_machine(cluster: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    line = f"echo begun; until test -e {go}; do sleep 0.1; done; echo done"
    name = in_this_process("run", "-c", "jobs", "--detach", "--", "sh", "-c", line).stdout.strip()
    assert name.startswith("jobs/")
    eventually(lambda: "running" in in_this_process("job", "list", "jobs").stdout.splitlines()[1])
    eventually(lambda: "begun" in in_this_process("job", "logs", name).stdout)
    with pytest.raises(JobTimeout):
        cluster.job(name.partition("/")[2]).wait(0.1)
    waited = in_this_process("job", "wait", name, "--timeout", "0")
    assert (waited.returncode, name.partition("/")[2] in waited.stderr) == (7, True)
    go.touch()
    assert in_this_process("job", "logs", "-f", name).stdout == "begun\ndone\n"
    assert in_this_process("job", "wait", name).returncode == 0
    shown = json.loads(in_this_process("job", "status", name, "--json").stdout)
    assert (shown["state"], shown["exit_code"], len(shown["tasks"])) == ("succeeded", 0, 1)
    # It is over: nothing changes any more.
    assert "it is over" in in_this_process("job", "cancel", name).stderr
    missing = in_this_process("job", "status", "jobs/20200101T000000Z-0000000")
    assert (missing.returncode, name.partition("/")[2] in missing.stderr) == (6, True)


def test_ctrl_c_ends_the_command_on_its_host(cluster: Cluster, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    line = f"echo $$ > {pid}; echo up; exec sleep 100"
    process = begin("run", "-c", "jobs", "--", "sh", "-c", line, folder=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    os.kill(process.pid, signal.SIGINT)
    code, _, err = end(process)
    assert code == 130, err
    eventually(lambda: not Path(f"/proc/{int(pid.read_text())}").exists())
    assert Workspace.load().deployment("jobs").job().state == "cancelled"


@pytest.fixture
def heard() -> Iterator[None]:
    """Processes hear that their terminal closes, also under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_job_goes_on_when_its_terminal_closes(
    cluster: Cluster, tmp_path: Path, heard: None
) -> None:
    process = begin("run", "-c", "jobs", "--", "sh", "-c", "echo up; sleep 100", folder=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    os.kill(process.pid, signal.SIGHUP)
    code, _, err = end(process)
    assert code == 128 + signal.SIGHUP, err
    deployment = Workspace.load().deployment("jobs")
    eventually(lambda: deployment.job().state == "running")
    assert in_this_process("job", "cancel", "jobs").returncode == 0
    assert in_this_process("job", "wait", "jobs").returncode == 143


def test_a_batch_runs_each_input_and_its_code_is_the_worst(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "names.txt").write_text("a\nb c\n\nd\n")
    inputs = str(tmp_path / "names.txt")
    line = ["sh", "-c", 'echo "<{}>"; test "{}" != d || exit 9']
    done = in_this_process("batch", "-c", "jobs", "--map-over", inputs, "--", *line)
    assert done.returncode == 9, done.stderr
    assert ": failed, 2/3 succeeded, 1 failed\n" in done.stderr
    record = Workspace.load().deployment("jobs").job()
    assert [(task.input, task.state) for task in record.tasks] == [
        ("a", "succeeded"),
        ("b c", "succeeded"),
        ("d", "failed"),
    ]
    assert in_this_process("job", "logs", record.name, "--task", "1").stdout == "<b c>\n"
    shown = in_this_process("job", "status", record.name, "--failed").stdout
    assert len(shown.splitlines()) == 2
    array = in_this_process("batch", "-c", "jobs", "--array", "3-5", "--", "test", "{}", "-gt", "2")
    assert array.returncode == 0, array.stderr


def test_a_worker_may_write_no_record_and_its_scheduler_no_other_object(
    cluster: Cluster, sim: Simulator
) -> None:
    def write(key: str) -> str:
        import boto3
        from botocore.exceptions import ClientError

        bucket = f"terradask-default-123456789012-{os.environ['AWS_REGION']}"
        try:
            boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=b"x")
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "written"

    job = Workspace.load().deployment("jobs").job_ids()[0]
    record = f"reports/jobs.jobs/{job}/job.json.gz"
    with cluster.get_client() as client:
        assert client.submit(write, record, pure=False).result() == "AccessDenied"
        assert client.run_on_scheduler(write, f"reports/jobs.jobs/{job}/1.txt") == "AccessDenied"
        assert client.run_on_scheduler(write, "reports/jobs/x/events.json") == "AccessDenied"
        # It can spoil its own: what can't be read is an error, and no more.
        assert client.run_on_scheduler(write, record) == "written"
    broken = in_this_process("job", "status", f"jobs/{job}")
    assert (broken.returncode, "a job's record is unreadable" in broken.stderr) == (1, True)


def test_a_cluster_is_made_for_a_command_and_destroyed_after_it(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    code, out, err = end(
        begin("run", "--vm-type", "m7i.large", "--", "echo", "there", folder=tmp_path)
    )
    assert (code, out) == (0, b"there\n"), err
    name = err.decode().partition("job ")[2].partition("/")[0]
    eventually(lambda: not any(host.cluster == name for host in sim.hosts()))
    assert not Workspace.load().deployment(name).exists
    # What it did is still known.
    assert in_this_process("job", "logs", name).stdout == "there\n"


def test_a_killed_clients_job_is_done_and_then_its_cluster_ends(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    line = f"echo up; until test -e {go}; do sleep 0.1; done; echo made it"
    with begin(
        *("run", "--", "sh", "-c", line),
        folder=tmp_path,
        TERRADASK_CLUSTER__NO_CLIENT_TIMEOUT_SECONDS="2",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"up\n"
        os.kill(process.pid, signal.SIGKILL)
        name = process.stderr.read().decode().partition("job ")[2].partition("/")[0]
    workspace = Workspace.load()
    deployment = workspace.deployment(name)
    # Far longer than a cluster without a client goes on.
    time.sleep(8.0)
    assert deployment.job().state == "running"
    go.touch()
    eventually(lambda: not any(host.cluster == name for host in sim.hosts()))
    assert str(deployment.status().why_ended).startswith("no client for 2 seconds")
    record = deployment.job()
    assert (record.state, record.exit_code) == ("succeeded", 0)
    assert str(deployment.job_output(record.id)) == "up\nmade it\n"
    assert deployment.marked_closing
    workspace.destroy_cluster(name)


def test_a_cluster_that_was_made_for_a_detached_command_ends_after_it(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    line = f"until test -e {go}; do sleep 0.1; done; echo made it"
    code, out, err = end(
        begin(
            *("run", "--detach", "--", "sh", "-c", line),
            folder=tmp_path,
            TERRADASK_CLUSTER__NO_CLIENT_TIMEOUT_SECONDS="2",
        )
    )
    assert code == 0, err
    name = out.decode().partition("/")[0]
    workspace = Workspace.load()
    assert not workspace.deployment(name).job().is_over
    go.touch()
    eventually(lambda: not any(host.cluster == name for host in sim.hosts()))
    assert in_this_process("job", "logs", name).stdout == "made it\n"
    assert in_this_process("job", "wait", name).returncode == 0
    assert workspace.deployment(name).marked_closing
    workspace.destroy_cluster(name)


def test_each_input_succeeds_once_while_hosts_are_taken_back(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    inputs, go = [str(number) for number in range(200)], tmp_path / "go"
    # Hosts are busy until the last one is taken back, however long that takes.
    waits = f"test {{}} -lt 50 || until test -e {go}; do sleep 0.1; done"
    with Cluster("taken", n_workers=4, max_workers=6, wait_for_workers=True) as cluster:
        job = cluster.map_commands(
            ["sh", "-c", f"{waits}; sleep 0.5; echo {{}} >> {tmp_path}/runs"], inputs, retries=0
        )
        for _ in range(3):
            time.sleep(1.0)
            # One that has begun a task.
            gone = eventually(
                lambda: next((t.host for t in job.tasks if t.state == "running"), None)
            )
            sim.kill_host(gone)
            eventually(lambda gone=gone: gone not in cluster.observed and cluster.observed)
        go.touch()
        assert job.wait(HANG_SECONDS) == 0
        tasks = job.tasks
    assert [task.state for task in tasks] == ["succeeded"] * len(inputs)
    assert sum(task.interruptions for task in tasks) >= 3
    assert {task.failures for task in tasks} == {0}
    assert set((tmp_path / "runs").read_text().split()) == set(inputs)
    # Closed, it reads what is recorded.
    assert job.exit_code == 0
    assert job.tasks == tasks


def test_what_was_left_behind_is_done_where_it_was_asked_for_and_then_the_cluster_ends(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    code = f"""
import os, signal, time
from distributed import fire_and_forget
from terradask import Cluster

def write(name, seconds):
    time.sleep(seconds)
    open(f"{tmp_path}/{{name}}", "w").write("done")
    return name

cluster = Cluster("left", n_workers=1, no_client_timeout="2s", idle_timeout="10s",
                  wait_for_workers=True)
client = cluster.get_client()
client.publish_dataset(published=client.submit(write, "published", 10))
fire_and_forget(client.submit(write, "forgotten", 8))
# They are on their way until the scheduler has them.
while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) < 2:
    time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, timeout=PROCESS_SECONDS
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    eventually(lambda: not any(host.cluster == "left" for host in sim.hosts()))
    assert (tmp_path / "forgotten").read_text() == (tmp_path / "published").read_text() == "done"
    workspace = Workspace.load()
    # The dataset was held for a client that might come.
    assert str(workspace.deployment("left").status().why_ended).startswith("idle for 10 seconds")
    workspace.destroy_cluster("left")


def test_a_schedulers_end_loses_a_job_and_says_so(
    sim_environ: dict[str, str], sim: Simulator
) -> None:
    with Cluster("losing", n_workers=1, wait_for_workers=True) as cluster:
        job = cluster.run_command(["sleep", "100"])
        deployment = Workspace.load().deployment("losing")
        eventually(lambda: deployment.job(job.id).state == "running")
        (scheduler,) = (
            host for host in sim.hosts() if host.role == "scheduler" and host.cluster == "losing"
        )
        sim.kill_host(scheduler.instance_id)
        with pytest.raises(JobLost, match="is lost"):
            job.wait()
        record = deployment.job(job.id)
        assert (record.state, record.exit_code) == ("lost", 125)
        with pytest.raises(JobNotFound):
            deployment.job("20200101T000000Z-0000000")


def test_who_may_not_read_reports_reads_no_records(
    cluster: Cluster, sim: Simulator, policies: dict[str, list[dict[str, object]]]
) -> None:
    with sim.acting_as("stranger"), pytest.raises(AccessDenied):
        Workspace.load().deployment("jobs").job_ids()
    with sim.acting_as("user", *policies["user"]):
        found = Workspace.load().deployment("jobs")
        assert found.job(found.job_ids()[-1]).is_over
