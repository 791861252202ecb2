"""Jobs on a scheduler and workers of Dask's, with real commands."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from terradask._clusters.jobs.files import find_files, pack
from terradask_host.errors import CommandRefused
from terradask_host.jobs import BEGIN_OPERATION, TELL_OPERATION, output_name, record_name
from terradask_host.preload import jobs
from terradask_host.preload.lifetime_watch import Observer

from ..waiting import eventually_async
from .running_jobs import Running, running
from .test_job_tasks import some_job


@pytest.fixture
async def one() -> AsyncIterator[Running]:
    async with running() as found:
        yield found


#: How many tasks a worker of four threads has when it is lost, at least.
INTERRUPTED = 3


def shell(line: str) -> list[str]:
    return ["sh", "-c", line]


async def test_a_command_runs_with_its_files_variables_and_exit_code(
    one: Running, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/in.txt").write_text("from a file")
    packed = pack(find_files([], tmp_path))
    job = await one.submit(
        shell('cat data/in.txt; echo " $WORD $TERRADASK_TASK_TRY"; echo bad >&2; exit 3'),
        packed=packed,
        environ={"WORD": "given"},
    )
    assert await one.over(job) == 3
    assert await one.output(job) == (b"from a file given 1\n", b"bad\n")
    (task,) = await one.tasks(job)
    assert (task["state"], task["host"], task["why"]) == ("failed", "i-1", None)
    assert task["started_at"] <= task["ended_at"]
    record, output = one.kept[record_name(job)], one.kept[output_name(job, 0)]
    assert record == await one.record(job)
    assert record["environ"] == ["WORD"]
    assert "given" not in str(record)
    assert sum(len(piece) for _, piece in output["pieces"])
    # Its folder is gone with it.
    (worker,) = one.workers
    assert not list(Path(worker.local_directory).glob("job-*"))


async def test_output_is_there_while_it_runs(one: Running) -> None:
    job = await one.submit(shell("echo first; sleep 60"))
    answer = await one.jobs.read_output(job, 0, 0, 20.0)
    assert answer["pieces"] == [(1, b"first\n")]
    assert not answer["is_final"]
    since = answer["end"]
    began = time.monotonic()
    assert (await one.jobs.read_output(job, 0, since, 0.3))["pieces"] == []
    assert time.monotonic() - began >= 0.3
    await one.jobs.cancel(job)
    await one.over(job)


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (["no-such-program"], 127, b"no-such-program: No such file or directory"),
        (["/etc/passwd"], 126, b"Permission denied"),
        (shell("kill -9 $$"), 137, b""),
    ],
)
async def test_what_cant_run_or_is_killed_has_a_shells_exit_code(
    one: Running, command: list[str], code: int, text: bytes
) -> None:
    job = await one.submit(command)
    assert await one.over(job) == code
    assert text in (await one.output(job))[1]


async def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(
    one: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_GRACE_SECONDS", 0.3)
    pids = tmp_path / "pids"
    job = await one.submit(
        shell(f"sleep 100 & echo $! > {pids}; trap '' TERM; sleep 100"), timeout_seconds=0.5
    )
    assert await one.over(job) == 124
    (task,) = await one.tasks(job)
    assert task["why"] == "it ran out of time"
    assert not psutil.pid_exists(int(pids.read_text()))


async def test_what_a_command_leaves_behind_is_ended(one: Running, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    job = await one.submit(shell(f"sleep 100 & echo $! > {pids}"))
    assert await one.over(job) == 0
    await eventually_async(lambda: not psutil.pid_exists(int(pids.read_text())))


@pytest.mark.parametrize(("code", "recorded"), [(5, 5), (0, 143)])
async def test_cancel_ends_what_runs_and_begins_nothing_more(
    one: Running, code: int, recorded: int
) -> None:
    line = f"trap 'echo got it; exit {code}' TERM; echo up; sleep 100 & wait"
    job = await one.submit(shell(line), "abc")
    table = one.jobs._jobs[job].table
    await eventually_async(lambda: len(list(table.running())) == 2)
    await eventually_async(lambda: all(one.jobs._jobs[job].output(i).end for i in table.running()))
    assert (await one.jobs.cancel(job)) == 2
    assert await one.over(job) == 143
    tasks = await one.tasks(job)
    assert [task["state"] for task in tasks] == ["cancelled"] * 3
    assert sorted(task["exit_code"] or 0 for task in tasks) == [0, recorded, recorded]
    await eventually_async(lambda: not one.scheduler.tasks)


async def test_a_job_without_workers_can_be_cancelled() -> None:
    async with running(workers=0) as none:
        job = await none.submit(["true"])
        observer = Observer(none.scheduler, lambda: none.jobs.are_running)
        await eventually_async(lambda: bool(none.scheduler.tasks))
        look = observer.observe()
        assert look.left_work
        # The client by which jobs run isn't one.
        assert not look.present
        assert not look.came
        await none.jobs.cancel(job)
        assert await none.over(job) == 143
        await eventually_async(lambda: not none.scheduler.tasks)
        assert not observer.observe().left_work


async def test_a_task_is_tried_again_as_often_as_is_asked_for(one: Running) -> None:
    job = await one.submit(
        shell('echo "{} $TERRADASK_TASK_TRY"; test "$TERRADASK_TASK_TRY" -gt "{}"'),
        ["0", "1", "2", "9"],
        retries=2,
    )
    assert await one.over(job) == 1
    tasks = await one.tasks(job)
    assert [(task["state"], task["tries"]) for task in tasks] == [
        *(("succeeded", tries) for tries in (1, 2, 3)),
        ("failed", 3),
    ]
    assert [task["interruptions"] for task in tasks] == [0] * 4
    out, said = await one.output(job, 2)
    assert out == b"2 1\n2 2\n2 3\n"
    assert said == b"terradask: try 2, on i-1\nterradask: try 3, on i-1\n"


async def test_a_lost_worker_costs_no_retry_and_its_command_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with running(workers=1, nthreads=1) as found:
        job = await found.submit(shell(f"echo $$ >> {pids}; test -e {tmp_path}/go || sleep 100"))
        await eventually_async(lambda: pids.is_file() and bool(pids.read_text()))
        (tmp_path / "go").touch()
        await found.lose_worker(found.workers[0])
        (task,) = await found.tasks(job)
        assert (task["state"], task["why"]) == ("pending", "its worker was lost")
        await found.add_worker()
        assert await found.over(job) == 0
        (task,) = await found.tasks(job)
        assert (task["tries"], task["failures"], task["interruptions"]) == (2, 0, 1)
        assert task["host"] == "i-2"


@pytest.mark.parametrize(
    ("tasks", "seconds_each", "lost"),
    [(60, 0.5, 3), pytest.param(1_000, 0.05, 16, marks=pytest.mark.life)],
)
async def test_each_of_many_succeeds_exactly_once_while_workers_are_lost(
    tasks: int, seconds_each: float, lost: int, tmp_path: Path
) -> None:
    """The 1,000 have 16 workers of four threads lost under them: each interrupts some."""
    async with running(workers=4, nthreads=4) as found:
        line = f'echo "{{}}" >> {tmp_path}/runs; sleep {seconds_each}'
        job = await found.submit(shell(line), [str(i) for i in range(tasks)])
        table = found.jobs._jobs[job].table
        began = time.monotonic()
        for number in range(1, lost + 1):
            due = number * tasks // (lost + 1)
            await eventually_async(
                lambda due=due: sum(task.exit_code == 0 for task in table.tasks) >= due
            )
            lost_one = found.workers[0]
            await eventually_async(
                lambda host=lost_one.name: (
                    sum(table.tasks[index].host == host for index in table.running()) >= INTERRUPTED
                )
            )
            await found.lose_worker(lost_one)
            await found.add_worker(4)
        await eventually_async(lambda: table.is_over)
        seconds = time.monotonic() - began
        ended = await found.tasks(job)
        interrupted = sum(task["interruptions"] for task in ended)
        print(f"{tasks} tasks, {interrupted} interruptions, {seconds:.1f} s")
        assert [task["state"] for task in ended] == ["succeeded"] * tasks
        assert interrupted >= INTERRUPTED * lost
        assert {task["failures"] for task in ended} == {0}
        assert {task["exit_code"] for task in ended} == {0}
        # Some ran more than once, none is missing, and each has one row and no more.
        assert {int(one) for one in (tmp_path / "runs").read_text().split()} == set(range(tasks))
        assert found.kept[record_name(job)] == await found.record(job)
        assert not found.scheduler.tasks or await eventually_async(
            lambda: not found.scheduler.tasks
        )


async def test_what_dask_gives_up_is_run_again(one: Running, tmp_path: Path) -> None:
    line = f"if test -e {tmp_path}/go; then exit 0; fi; echo up; sleep 100"
    job = await one.submit(shell(line))
    await eventually_async(lambda: bool(one.jobs._jobs[job].output(0).end))
    (tmp_path / "go").touch()
    await one.jobs._client.cancel(list(one.jobs._jobs[job].futures.values()), force=True)
    assert await one.over(job) == 0
    (task,) = await one.tasks(job)
    assert (task["tries"], task["failures"], task["interruptions"]) == (2, 0, 1)


async def test_what_a_replaced_try_says_is_ignored(one: Running) -> None:
    job = await one.submit(shell("sleep 100"))
    table = one.jobs._jobs[job].table
    await eventually_async(lambda: bool(list(table.running())))
    # Another worker begins it, since the first is cut off.
    began = one.jobs.begin(job, 0, "i-9", "tcp://127.0.0.1:1")
    assert began is not None
    one.jobs.end(job, 0, 1, exit_code=0, why=None, output=(0, [(1, b"stale")]))
    one.jobs.tell([[job, 0, 1, 0, [(1, b"stale")]]])
    assert not table.is_over
    one.jobs.end(job, 0, 2, exit_code=0, why=None, output=(0, [(1, b"fresh")]))
    assert table.exit_code == 0
    assert (await one.output(job))[0] == b"fresh"
    assert one.jobs.begin(job, 0, "i-1", "tcp://127.0.0.1:1") is None
    await one.jobs.cancel(job)
    assert table.exit_code == 0


async def test_output_is_told_again_where_the_call_was_lost_and_stands_there_once(
    one: Running, tmp_path: Path
) -> None:
    tell, heard = one.jobs.tell, []

    def lose_some(news: list[list[object]]) -> dict[str, object]:
        heard.append(news)
        if len(heard) == 2:
            raise OSError("the call is lost")
        answer = tell(news)
        if len(heard) == 1:
            raise OSError("the answer is lost")
        return answer

    one.scheduler.handlers[TELL_OPERATION] = lose_some
    go = tmp_path / "go"
    line = f"echo one; sleep 0.5; echo two; until test -e {go}; do sleep 0.1; done; echo three"
    job = await one.submit(shell(line))
    await eventually_async(lambda: len(heard) >= 3)
    go.touch()
    assert await one.over(job) == 0
    assert (await one.output(job))[0] == b"one\ntwo\nthree\n"


async def test_a_cancel_that_overtakes_the_answer_to_a_worker_holds_all_the_same(
    one: Running, tmp_path: Path
) -> None:
    begin, begun, cancelled = one.jobs.begin, asyncio.Event(), asyncio.Event()

    async def answer_late(**facts: object) -> object:
        answer = begin(**facts)  # type: ignore[arg-type]
        begun.set()
        await cancelled.wait()
        return answer

    one.scheduler.handlers[BEGIN_OPERATION] = answer_late
    job = await one.submit(shell(f"touch {tmp_path}/ran; sleep 100"))
    await begun.wait()
    assert (await one.jobs.cancel(job)) == 1
    cancelled.set()
    assert await one.over(job) == 143
    assert not (tmp_path / "ran").exists()


async def test_a_job_goes_on_when_the_clients_of_a_cluster_restart_its_workers(
    one: Running, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("from a file")
    line = f"cat in.txt; test -e {tmp_path}/go || sleep 100"
    job = await one.submit(shell(line), packed=pack(find_files([tmp_path / "in.txt"], None)))
    await eventually_async(lambda: bool(one.jobs._jobs[job].output(0).end))
    (tmp_path / "go").touch()
    await one.lose_worker(one.workers[0])
    await one.scheduler.restart(wait_for_workers=False, stimulus_id="restart")
    await one.add_worker()
    assert await one.over(job) == 0


async def test_a_job_that_isnt_one_is_refused_with_the_reason(one: Running) -> None:
    empty = {**some_job().to_document(), "command": []}
    one_less = {name: value for name, value in empty.items() if name != "job"}
    for wrong, why in (
        (empty, "it has no command"),
        (one_less, "job"),
        ({**empty, "boot": "1"}, "boot"),
    ):
        with pytest.raises(CommandRefused, match=why):
            await one.jobs.submit(wrong)
    assert await one.jobs.read("20261124T153000Z-0000000") is None
    assert await one.jobs.read_output("x") is None
    assert await one.jobs.cancel("x") == 0
    assert one.jobs.begin("x", 0, "i-1", "") is None


async def test_a_client_that_waits_is_answered_at_the_end_or_when_its_wait_is_over(
    one: Running,
) -> None:
    job = await one.submit(shell("sleep 0.5"), [str(number) for number in range(6)])
    assert await one.jobs.read(job) == {"exit_code": None}
    began = time.monotonic()
    assert await one.jobs.read(job, wait_seconds=0.2) == {"exit_code": None}
    assert time.monotonic() - began >= 0.2
    # Six tasks begin and end meanwhile.
    assert await one.jobs.read(job, wait_seconds=20.0) == {"exit_code": 0}


def test_the_supervisor_ends_its_command_with_the_worker(tmp_path: Path) -> None:
    """As when the worker's process is killed: its end of the pipe closes."""
    import subprocess

    from terradask_host.preload import job_supervisor

    pids = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", job_supervisor.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        line = f"echo $$ > {pids}; trap '' TERM; while true; do sleep 1; done"
        order = {"command": shell(line), "folder": str(tmp_path), "environ": dict(os.environ)}
        import json

        process.stdin.write(json.dumps({**order, "grace_seconds": 60}).encode() + b"\n")
        process.stdin.flush()
        deadline = time.monotonic() + 20
        while not (pids.is_file() and pids.read_text().strip()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.stdin.close()
        assert process.wait(10) == 128 + signal.SIGKILL
        assert not psutil.pid_exists(int(pids.read_text()))
