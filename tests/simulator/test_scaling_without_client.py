"""Scaling goes on when no client is there: on the scheduler's host, through its end and that of its
process.
"""

from __future__ import annotations

import json
import time

import pytest

from terradask import Cluster
from terradask.cli._run import run

from ..waiting import eventually
from .left_alone import leave, numbers

pytestmark = [pytest.mark.simulator, pytest.mark.life]

MOST = 20

SCHEDULER, WORKERS = "terradask-default-scheduler", "terradask-default-alone-workers"

#: Half as long as what was read counts.
IDLE_SECONDS = 30.0

EAGER = {"interval": "100 ms", "target_duration": "500 ms", "wait_count": 10}


@pytest.fixture(scope="module")
def cluster(sim, sim_environ):
    with (
        sim.hollow_hosts(),
        Cluster(
            "alone", n_workers=1, max_workers=MOST, idle_timeout=False, wait_for_workers=True
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(autouse=True)
def _one_worker_that_stays(cluster):
    yield
    cluster.scale(1)
    eventually(lambda: len(cluster.observed) == 1 == len(cluster.plan))


def hosts_ended(sim):
    return sum(
        one["group"] == WORKERS and one["ended"] is not None
        for one in sim.history()["instances"].values()
    )


def looks(sim, seconds):
    """Return how many calls for the groups the scheduler's host makes from now on."""
    sim.reset_calls()
    time.sleep(seconds)
    calls = sim.calls(by="role").get(SCHEDULER, {})
    return sum(n for name, n in calls.items() if name.startswith("autoscaling:"))


def test_a_cluster_grows_with_its_work_and_shrinks_after_its_client_was_killed(cluster, sim):
    sim.reset_calls()
    before = hosts_ended(sim)
    leave("alone", 20, 400)
    eventually(lambda: numbers(sim, "alone") == (20, 20))
    eventually(lambda: numbers(sim, "alone") == (1, 1))

    def calls(name: str) -> int:
        return sim.calls(by="role")[SCHEDULER][f"autoscaling:{name}"]

    # However many hosts there are. On a busy machine tasks seem to take longer, and it may grow
    # again.
    assert calls("SetDesiredCapacity") <= MOST / 2
    # Each of them is ended by a call.
    eventually(
        lambda: calls("TerminateInstanceInAutoScalingGroup") == hosts_ended(sim) - before >= 19
    )


def test_while_nothing_changes_calls_are_few_however_many_workers_there_are(cluster, sim):
    for n in (1, MOST):
        cluster.adapt(minimum=n, maximum=MOST, **EAGER)
        eventually(lambda n=n: len(cluster.observed) == n)
        eventually(lambda n=n: numbers(sim, "alone") == (n, n))
        # The looks at what has joined.
        eventually(lambda: not looks(sim, 2.0))
        # Two looks a minute at the groups, and not one for each host.
        assert looks(sim, IDLE_SECONDS) <= 4, sim.calls(by="role")
        # The use of hosts, and lines of the log: of a busy machine Dask's scheduler writes some.
        assert sum(sim.calls(by="role").get(SCHEDULER, {}).values()) < MOST


def test_the_policy_is_one_for_all_clients_and_the_last_word_counts(cluster, caplog):
    with Cluster.from_name("alone") as second:
        assert second.adapting == {}
        second.adapt(minimum=1, maximum=3, **EAGER)
        eventually(lambda: cluster.adapting)
        assert (cluster.adapting["workers"].minimum, cluster.adapting["workers"].maximum) == (1, 3)
        cluster.adapt(minimum=2, maximum=4, **EAGER)
        eventually(lambda: second.adapting["workers"].maximum == 4)
        eventually(lambda: len(cluster.observed) == 2)
        # A person's number holds, also through an object that attached.
        second.scale(3)
        eventually(lambda: len(cluster.observed) == 3)
        eventually(lambda: not cluster.adapting)
        assert "ends its adapting between 2 and 4 hosts" in caplog.text
        time.sleep(2)
        assert len(cluster.observed) == 3

    def reasons():
        return [each.reason for each in cluster.events() if each.state == "scaled"]

    eventually(lambda: "no longer adapts: its number was set" in reasons())


def test_the_command_line_sets_it_and_ends_it(cluster, capsys, caplog):
    assert run(["adapt", "alone", "--minimum", "2", "--maximum", "5", "--interval", "100ms"]) == 0
    assert capsys.readouterr().out == "alone: workers adapts between 2 and 5 workers\n"
    eventually(lambda: len(cluster.observed) == 2)
    assert run(["status", "alone"]) == 0
    assert "adapts     workers: 2 to 5\n" in capsys.readouterr().out
    assert run(["adapt", "alone"]) == 0
    assert capsys.readouterr().out == "alone: workers adapts between 2 and 5 workers\n"
    assert run(["scale", "alone", "1"]) == 0
    assert capsys.readouterr().out == "alone: workers is scaled to 1 worker\n"
    assert "ends its adapting between 2 and 5 hosts" in caplog.text
    eventually(lambda: len(cluster.observed) == 1)
    assert run(["scale", "alone", "2", "--wait", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "cluster": "alone",
        "group": "workers",
        "workers": 2,
    }
    eventually(lambda: len(cluster.observed) == 2)
    assert run(["scale", "alone", "21"]) == 2
    assert "max_workers" in capsys.readouterr().err
    assert run(["adapt", "alone", "--minimum", "2", "--maximum", "5"]) == 0
    assert capsys.readouterr().out == "alone: workers adapts between 2 and 5 workers\n"
    assert run(["adapt", "alone", "--off", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cluster": "alone", "adapting": {}}
    assert run(["status", "alone", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["adapting"] == {}
    assert run(["adapt", "alone", "--maximum", "21"]) == 2
    assert "max_workers" in capsys.readouterr().err
    assert run(["adapt", "alone", "--group", "tpu"]) == 2
    assert "no group of workers 'tpu'" in capsys.readouterr().err
