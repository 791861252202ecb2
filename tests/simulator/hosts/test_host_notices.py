"""A scheduler's host tells a topic that its cluster has ended by itself, and ends it anyway."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import time
from collections.abc import Callable

import pytest

from ...waiting import eventually
from ..queues import messages_of, subscribed_queue
from .account import Account
from .authority import RUN_ID
from .cluster import DASHBOARD_PORT, PORT, Cluster, HostProcess

pytestmark = [pytest.mark.simulator, pytest.mark.life]


def over(cluster: Cluster, **life: object) -> Cluster:
    """Let the cluster's run be over as soon as its scheduler's host looks."""
    now = datetime.datetime.now(datetime.UTC).isoformat()
    cluster.start(started_at=now, life={"max_lifetime_seconds": 1, **life})
    return cluster


def ended(cluster: Cluster, scheduler: HostProcess) -> str:
    """Wait until the cluster is over and its groups are at zero; return the log."""
    assert scheduler.wait_exit() == 0
    assert scheduler.report()["state"] == "left"
    assert (cluster.desired("scheduler"), cluster.desired("workers")) == (0, 0)
    return scheduler.log


def test_a_cluster_that_goes_too_says_what_removes_it(
    account: Account, lonely: Callable[..., Cluster]
) -> None:
    topic = account.sns.create_topic(Name="ends")["TopicArn"]
    cluster = over(lonely(), destroyed_after=True)
    only = {"cluster": [cluster.name], "run_id": [RUN_ID], "event": ["cluster-ended"]}
    queue = subscribed_queue(account.sns, account.sqs, topic, only, "own")
    scheduler = cluster.scheduler(notify_topic_arn=topic)
    assert f"notice to {topic}: cluster-ended" in ended(cluster, scheduler)
    (told,) = messages_of(account.sqs, queue)
    assert told["reason"] == scheduler.report()["reason"]
    assert told["next"] == f"terradask destroy {cluster.name}"
    assert (told["account"], told["region"]) == ("123456789012", "us-east-1")


def test_a_host_in_place_of_one_that_told_tells_no_more(
    account: Account, lonely: Callable[..., Cluster]
) -> None:
    topic = account.sns.create_topic(Name="again")["TopicArn"]
    cluster = lonely()
    ending = {"at": "2026-11-20T06:00:00Z", "reason": "idle for 20 minutes"}
    cluster.put("scheduler.json", cluster.address(ended=ending))
    queue = subscribed_queue(account.sns, account.sqs, topic, {"cluster": [cluster.name]}, "again")
    log = ended(cluster, cluster.scheduler(notify_topic_arn=topic))
    assert "the cluster is over: idle for 20 minutes" in log
    assert messages_of(account.sqs, queue) == []


@pytest.mark.usefixtures("fresh_dask")
def test_a_host_that_the_watchdog_ends_says_why(
    account: Account, lonely: Callable[..., Cluster]
) -> None:
    topic = account.sns.create_topic(Name="watched")["TopicArn"]
    cluster = lonely()
    cluster.start(life={"destroyed_after": True})
    queue = subscribed_queue(account.sns, account.sqs, topic, {"cluster": [cluster.name]}, "hung")
    scheduler = cluster.scheduler(
        notify_topic_arn=topic,
        timing={"watchdog_ahead_seconds": 2.0, "watchdog_move_seconds": 0.5},
    )
    scheduler.wait_state("running")
    dask = scheduler.dask_pid()
    os.kill(dask, signal.SIGSTOP)
    try:
        # What AWS does, which the host no longer puts off.
        eventually(lambda: "the watchdog schedule is not postponed" in scheduler.log)
        time.sleep(2.5)
        os.kill(scheduler.process.pid, signal.SIGTERM)
        eventually(lambda: scheduler.report()["state"] == "leaving")
    finally:
        os.kill(dask, signal.SIGCONT)
    ended(cluster, scheduler)
    reason = scheduler.report()["reason"]
    assert reason.startswith(
        "AWS's watchdog schedule has set all groups to 0: the scheduler gave no"
    )
    assert cluster.get("scheduler.json")["ended"]["reason"] == reason
    assert cluster.get("closing.json")["reason"] == reason
    (told,) = messages_of(account.sqs, queue)
    assert (told["event"], told["reason"]) == ("cluster-ended", reason)


def test_a_host_that_is_stopped_before_the_watchdog_tells_nothing(
    account: Account, lonely: Callable[..., Cluster]
) -> None:
    topic = account.sns.create_topic(Name="stopped")["TopicArn"]
    cluster = lonely()
    queue = subscribed_queue(account.sns, account.sqs, topic, {"cluster": [cluster.name]}, "stop")
    scheduler = cluster.scheduler(notify_topic_arn=topic)
    scheduler.wait_state("running")
    os.kill(scheduler.process.pid, signal.SIGTERM)
    assert scheduler.wait_exit() == 0
    assert "asked to stop by SIGTERM" in scheduler.report()["reason"]
    assert messages_of(account.sqs, queue) == []


def test_a_scheduler_that_is_given_up_is_told_once_for_each_host(
    account: Account, lonely: Callable[..., Cluster]
) -> None:
    topic = account.sns.create_topic(Name="failing")["TopicArn"]
    options = {"class": "distributed.Scheduler", "port": PORT, "dashboard_port": DASHBOARD_PORT}
    cluster = lonely(scheduler=options | {"options": {"idle_timeot": "1 s"}})
    queue = subscribed_queue(account.sns, account.sqs, topic, {"cluster": [cluster.name]}, "fail")
    for _ in range(2):
        # As systemd does.
        scheduler = cluster.scheduler(notify_topic_arn=topic, timing={"dask_restarts": 0})
        assert scheduler.wait_exit() == 1
    (told,) = messages_of(account.sqs, queue)
    assert (told["event"], told["next"]) == (
        "scheduler-failed",
        f"terradask logs {cluster.name} scheduler",
    )
    assert "the Dask scheduler died 1 time" in told["reason"]
    assert "idle_timeot" in told["reason"]
    assert "ended_at" not in told


def test_a_topic_that_is_gone_is_a_line_in_the_log(lonely: Callable[..., Cluster]) -> None:
    cluster = over(lonely())
    topic = "arn:aws:sns:us-east-1:123456789012:gone"
    log = ended(cluster, cluster.scheduler(notify_topic_arn=topic))
    assert f"no notice to {topic}: NotFoundException: " in log


def test_a_topic_that_does_not_answer_delays_the_end_by_seconds(
    lonely: Callable[..., Cluster],
) -> None:
    cluster = over(lonely())
    topic = "arn:aws:sns:us-east-1:123456789012:silent"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        scheduler = cluster.scheduler(
            notify_topic_arn=topic,
            endpoints={"AWS_ENDPOINT_URL_SNS": endpoint},
            timing={"notice_seconds": 2},
        )
        scheduler.wait_state("leaving")
        began = time.monotonic()
        log = ended(cluster, scheduler)
    assert f"{topic} didn't take the notice in 2 s" in log
    # botocore alone would try for a minute.
    assert time.monotonic() - began < 50
