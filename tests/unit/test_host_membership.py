"""Whom a scheduler takes for a worker: names, what AWS shows and when, and a real scheduler's
admission.
"""

import asyncio
import contextlib
import random
import time

import pytest
from distributed import Client, Scheduler, Worker, rpc

from terradask_host.preload import worker_admission
from terradask_host.preload.instance_proofs import startup_information
from terradask_host.preload.leave import Questions
from terradask_host.preload.scaling import ScalingWatch
from terradask_host.preload.worker_admission import MAX_LOGGED_REFUSALS, WorkerAdmission
from terradask_host.rules.instance_proof import PROOF_KEY
from terradask_host.rules.membership import Membership, Rules, Verdict, judge
from terradask_host.structure import WorkerEntry

from ..waiting import HANG_SECONDS, eventually_async

RULES = Rules(workers_per_host=3, extra_worker="scheduler-i-0", patience_seconds=60)
OURS = Membership().updated(["i-1"], 0, RULES)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("i-1", Verdict.OURS),
        ("i-1-1", Verdict.OURS),
        ("i-1-2", Verdict.OURS),
        ("scheduler-i-0", Verdict.OURS),
        ("i-2", Verdict.UNKNOWN),
        ("i-1-3", Verdict.STRANGER),
        ("i-1-0", Verdict.STRANGER),
        ("i-1-01", Verdict.STRANGER),
        ("scheduler-i-1", Verdict.STRANGER),
        ("i-1\n", Verdict.STRANGER),
        ("pending-1", Verdict.STRANGER),
        ("0", Verdict.STRANGER),
        ("tls://10.64.0.9:4711", Verdict.STRANGER),
        ("", Verdict.STRANGER),
    ],
)
def test_a_name_says_whose_worker_it_is(name, verdict):
    assert judge(name, 0, OURS, RULES) is verdict


BY_CLASS = Rules(numbered_by_class=True)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("i-1", Verdict.OURS),
        ("i-1-0", Verdict.OURS),
        ("i-1-15", Verdict.OURS),
        ("i-2-0", Verdict.UNKNOWN),
        ("i-1-64", Verdict.STRANGER),
        ("i-1-00", Verdict.STRANGER),
        ("i-1-0-0", Verdict.STRANGER),
    ],
)
def test_a_class_may_number_the_workers_that_it_makes_of_one(name, verdict):
    assert judge(name, 0, OURS, BY_CLASS) is verdict


def test_a_hosts_name_is_that_of_all_workers_which_its_class_made():
    joined = ["i-1-0", "i-1-1", "i-2-0", "x"]
    assert BY_CLASS.names_of(["i-1"], joined) == ["i-1", "i-1-0", "i-1-1"]
    assert BY_CLASS.names_of(["i-2-0"], joined) == ["i-2-0"]
    assert RULES.names_of(["i-1"], ["i-1", "i-1-1"]) == ["i-1"]


@pytest.mark.parametrize(
    ("name", "per_host", "several"),
    [
        ("distributed.Nanny", 1, False),
        ("distributed.worker.Worker", 1, False),
        ("dask_cuda.CUDAWorker", 1, True),
        ("dask_cuda.CUDAWorker", 2, False),
    ],
)
def test_dasks_own_classes_make_one_worker(name, per_host, several):
    entry = WorkerEntry(class_name=name, workers_per_host=per_host)
    assert entry.may_make_several is several


def test_there_is_no_worker_beside_a_scheduler_that_has_none():
    assert judge("scheduler-i-0", 0, OURS, Rules()) is Verdict.STRANGER
    assert judge("None", 0, OURS, Rules()) is Verdict.STRANGER


def test_a_stranger_is_one_only_once_aws_has_left_it_out_for_as_long_as_it_may():
    membership = Membership()
    assert judge("i-2", 0, membership, RULES) is Verdict.UNKNOWN
    for now in (0, 30, 59):
        membership = membership.updated(["i-1"], now, RULES)
        assert judge("i-2", 0, membership, RULES) is Verdict.UNKNOWN
    # Time alone says nothing: an AWS that doesn't answer makes nobody a stranger.
    assert judge("i-2", 0, membership, RULES) is Verdict.UNKNOWN
    assert judge("i-2", 0, membership.updated(["i-1"], 60, RULES), RULES) is Verdict.STRANGER
    assert judge("i-2", 0, membership.updated(["i-1", "i-2"], 60, RULES), RULES) is Verdict.OURS


def test_an_instance_that_answers_leave_out_is_gone_after_a_second_look():
    membership = OURS.updated([], 1000, RULES)
    assert judge("i-1", 0, membership, RULES) is Verdict.OURS
    assert judge("i-1", 0, membership.updated(["i-1"], 1060, RULES), RULES) is Verdict.OURS
    assert judge("i-1", 0, membership.updated([], 1060, RULES), RULES) is Verdict.STRANGER


@pytest.mark.parametrize("seed", range(20))
def test_no_instance_is_refused_that_aws_hides_for_no_longer_than_it_may(seed):
    rng = random.Random(seed)
    hidden_until = {f"i-{n}": rng.uniform(0, 60) for n in range(20)}
    membership, now = Membership(), 0.0
    while now < 300:
        now += rng.uniform(0.1, 70)
        # Now and then an answer is an old one.
        shown = [
            each for each, until in hidden_until.items() if now >= until and rng.random() > 0.02
        ]
        membership = membership.updated(shown, now, RULES)
        membership = membership.updated(
            [each for each, until in hidden_until.items() if now >= until], now, RULES
        )
        assert all(
            judge(each, 0, membership, RULES) is not Verdict.STRANGER for each in hidden_until
        )


PROVEN = ("proven", "")


@contextlib.asynccontextmanager
async def scheduler_with(rules, answers, verdicts=lambda **_: PROVEN):
    """Run a scheduler that asks who there is; `answers` gives the next answer, or None where AWS
    has none, `verdicts` what AWS says of a proof.
    """
    asked, refused = [], []
    admission = questions = None

    def tell(event, **facts):
        if event == "who":
            asked.append(event)
            asyncio.get_running_loop().call_later(0.01, lambda: admission.update(answers()))
        elif event == "proof":
            verdict, why = verdicts(**{key: facts[key] for key in ("role", "instance_id", "proof")})
            answer = {"number": facts["number"], "verdict": verdict, "why": why}
            asyncio.get_running_loop().call_soon(questions.take, answer)
        else:
            refused.append(facts["name"])

    scheduler = Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0")
    questions = Questions(tell)
    admission = WorkerAdmission(scheduler, rules, tell, questions)
    async with scheduler:
        yield scheduler, admission, asked, refused


PROOF = {"authorization": "AWS4-HMAC-SHA256 ...", "date": "20261122T000000Z", "token": "t"}


def worker(scheduler, name, proof=PROOF):
    return Worker(
        scheduler.address,
        name=name,
        startup_information=startup_information(proof),
        nthreads=1,
        dashboard=False,
        dashboard_address=":0",
    )


async def test_a_stranger_is_told_so_and_never_gets_a_task():
    async with scheduler_with(Rules(), list) as (scheduler, _, asked, refused):
        async with Client(scheduler.address, asynchronous=True) as client:
            waiting = client.submit(lambda: "worked")
            with pytest.raises(Exception, match="failed to start") as caught:
                await worker(scheduler, "stranger")
            assert "isn't an instance of this cluster" in str(caught.value.__cause__)
            assert not scheduler.workers
            assert waiting.status == "pending"
        assert (asked, refused) == ([], ["'stranger'"])


async def test_a_worker_waits_until_aws_shows_its_instance_and_several_ask_once():
    shown = iter([None, [], ["i-1", "i-2"]])
    rules = Rules(workers_per_host=2, ask_seconds=0.05)
    async with scheduler_with(rules, lambda: next(shown)) as (scheduler, _, asked, refused):
        async with worker(scheduler, "i-1"), worker(scheduler, "i-1-1"), worker(scheduler, "i-2"):
            assert {state.name for state in scheduler.workers.values()} == {"i-1", "i-1-1", "i-2"}
        assert (len(asked), refused) == (3, [])


async def test_a_worker_joins_with_the_proof_of_its_instance_which_dask_never_keeps():
    def verdicts(role, instance_id, proof):
        seen.append((role, instance_id, proof))
        return PROVEN

    seen = []
    rules = Rules(workers_per_host=2, extra_worker="scheduler-i-0")
    async with (
        scheduler_with(rules, lambda: ["i-1"], verdicts) as (scheduler, _, _, refused),
        worker(scheduler, "i-1-1"),
        worker(scheduler, "scheduler-i-0"),
    ):
        assert seen == [("worker", "i-1", PROOF), ("scheduler", "i-0", PROOF)]
        assert PROOF["authorization"] not in repr(scheduler.identity())
        assert all(PROOF_KEY not in each.extra for each in scheduler.workers.values())
    assert refused == []


@pytest.mark.parametrize("proof", [None, "proof", {}, {**PROOF, "token": "t\r\nHost: x"}])
async def test_a_worker_without_a_proof_is_refused_before_aws_is_asked(proof):
    async with scheduler_with(Rules(), lambda: ["i-1"]) as (scheduler, _, asked, refused):
        with pytest.raises(Exception, match="failed to start") as caught:
            await worker(scheduler, "i-1", proof)
        assert "no proof of its instance" in str(caught.value.__cause__)
        assert (asked, refused, scheduler.workers) == ([], ["'i-1'"], {})


async def test_a_worker_whose_proof_aws_refuses_gets_no_task():
    def verdicts(**_):
        return "refused", "its proof is of another"

    async with scheduler_with(Rules(), lambda: ["i-1"], verdicts) as (scheduler, _, _, refused):
        with pytest.raises(Exception, match="failed to start") as caught:
            await worker(scheduler, "i-1")
        assert "its proof is of another" in str(caught.value.__cause__)
        assert (refused, scheduler.workers) == (["'i-1'"], {})


async def test_a_proof_is_checked_again_until_aws_answers():
    def verdicts(**_):
        return next(answers)

    answers = iter([("unknown", "AWS doesn't answer"), ("unknown", "again"), PROVEN])
    rules = Rules(ask_seconds=0.01)
    async with (
        scheduler_with(rules, lambda: ["i-1"], verdicts) as (scheduler, _, _, refused),
        worker(scheduler, "i-1"),
    ):
        assert [each.name for each in scheduler.workers.values()] == ["i-1"]
        assert (refused, list(answers)) == ([], [])


async def test_a_name_that_aws_never_shows_is_refused_at_its_limit():
    rules = Rules(patience_seconds=0.2, ask_seconds=0.05)
    async with scheduler_with(rules, lambda: ["i-1"]) as (scheduler, _, asked, refused):
        with pytest.raises(Exception, match="failed to start"):
            await worker(scheduler, "i-2")
        assert len(asked) > 1
        assert refused == ["'i-2'"]


async def test_a_worker_whose_instance_is_no_longer_the_clusters_is_removed():
    rules = Rules(patience_seconds=0.05)
    async with (
        scheduler_with(rules, lambda: ["i-1", "i-2"]) as (scheduler, admission, _, refused),
        worker(scheduler, "i-1") as first,
        worker(scheduler, "i-2"),
    ):
        admission.update(["i-2"])
        await asyncio.sleep(0.1)
        assert len(scheduler.workers) == 2
        admission.update(["i-2"])
        await asyncio.wait_for(first.finished(), HANG_SECONDS)
        assert [state.name for state in scheduler.workers.values()] == ["i-2"]
        assert refused == ["'i-1'"]


async def test_a_worker_that_is_retired_before_it_joins_waits_whether_its_host_ends(monkeypatch):
    async with (
        scheduler_with(Rules(), lambda: ["i-1", "i-2", "i-3"]) as (scheduler, _, _, refused),
        rpc(scheduler.address) as client,
    ):
        monkeypatch.setattr(worker_admission, "_LEAVING_SECONDS", HANG_SECONDS)
        assert await client.retire_workers(names=["i-3"], close_workers=True) == {}
        ended = asyncio.ensure_future(worker(scheduler, "i-3").start())
        since = time.monotonic()
        monkeypatch.setattr(worker_admission, "_LEAVING_SECONDS", 0.5)
        assert await client.retire_workers(names=["i-1"], close_workers=True) == {}
        async with worker(scheduler, "i-2"), worker(scheduler, "i-1"):
            assert time.monotonic() - since >= 0.5
            assert {state.name for state in scheduler.workers.values()} == {"i-1", "i-2"}
            assert not ended.done()
            ended.cancel()
        assert refused == []


async def test_no_worker_of_a_host_that_is_retired_before_it_joins_may_join():
    async with scheduler_with(Rules(workers_per_host=2), lambda: ["i-3"]) as (scheduler, *_):
        said = []

        def report(event, **facts):
            said.append((event, facts))

        watch = ScalingWatch(scheduler, {}, report, Questions(report))
        watch.retire({"hosts": ["i-3"], "drain": False, "forced": True})
        await eventually_async(lambda: said)
        assert said == [("retired", {"hosts": ["i-3"], "kept": []})]
        joining = asyncio.ensure_future(worker(scheduler, "i-3-1").start())
        await asyncio.sleep(0.5)
        assert not scheduler.workers
        assert not joining.done()
        joining.cancel()


async def test_what_strangers_call_themselves_is_told_short_and_not_for_ever():
    async with scheduler_with(Rules(), list) as (_, admission, _, refused):
        for number in range(2 * MAX_LOGGED_REFUSALS):
            admission._report_refused(f"{number}\n" + "x" * 1000, "tls://10.0.0.1:1", "why")
    assert len(refused) == MAX_LOGGED_REFUSALS
    assert all(len(name) < 100 and "\n" not in name for name in refused)
