"""Cluster, end to end on the embedded AWS: real Terraform, real mutual TLS, real Dask on hosts that
really boot.
"""

import asyncio
import contextlib
import json
import os

import dask
import pytest
from distributed import Client, wait

from terradask import Cluster, Workspace
from terradask.errors import InvalidInput

from ..waiting import HANG_SECONDS, eventually
from .acting import Account, host, refused
from .host_parts import make_volume, wait_for_tags, whose
from .scripts import run_python

pytestmark = [pytest.mark.simulator]


@pytest.fixture(scope="module")
def cluster(sim_environ, tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside")
    (folder / "beside_steps.py").write_text("def double(x):\n    return 2 * x\n")
    with contextlib.ExitStack() as stack:
        settings = {"distributed.worker.memory.spill": 0.61, "array.chunk-size": "7 MiB"}
        stack.enter_context(dask.config.set(settings))
        with contextlib.chdir(folder):
            made = Cluster(
                "shared",
                n_workers=2,
                wait_for_workers=True,
                max_workers=8,
                tags={"cost-centre": "4711"},
                environ={"SEEN_BY_ALL": "yes"},
                scheduler_options={"idle_timeout": "2 hours", "dashboard": False},
                worker_options={"resources": {"GPU": 1}},
            )
        yield stack.enter_context(made)


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client
    cluster.scale(2)
    eventually(
        lambda: len(cluster.observed) == 2 == len(cluster.plan),
        explain=lambda: f"not two workers again: {cluster.plan}",
    )


def unique_results(client, cluster):
    """Make one result on each worker that can't be made again; return futures and values."""
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    futures = [
        client.submit(os.urandom, 16, workers=[a], allow_other_workers=True, pure=False)
        for a in addresses
    ]
    wait(futures)
    return futures, client.gather(futures)


def test_it_computes_over_mutual_tls_on_hosts_of_the_account(cluster, client, sim):
    assert client.submit(sum, [1, 2, 3]).result() == 6
    assert cluster.scheduler_address.startswith("tls://127.")
    assert cluster.observed == cluster.plan == cluster.requested
    assert all(name.startswith("i-") for name in cluster.observed)
    assert {
        h.instance_id for h in sim.hosts() if h.role == "worker" and h.cluster == "shared"
    } == cluster.observed


def test_a_module_that_lies_here_alone_is_said_to_need_local_modules(client):
    for run in (client.run, lambda *call: client.submit(*call).result()):
        with pytest.raises(ModuleNotFoundError, match=r"'beside_steps'.*local_modules=True"):
            run(lambda: __import__("beside_steps").double(1))
        with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nowhere'$"):
            run(lambda: __import__("nowhere"))


def test_what_was_asked_for_reaches_the_hosts(cluster, client):
    def look(dask_worker):
        return (
            dask.config.get("distributed.worker.memory.spill"),
            dask.config.get("array.chunk-size"),
            os.environ["SEEN_BY_ALL"],
        )

    assert set(client.run(look).values()) == {(0.61, "7 MiB", "yes")}
    assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.idle_timeout) == 7200
    assert client.submit(sum, [1, 1], resources={"GPU": 1}).result() == 2
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    assert {w["nthreads"] for w in workers} == {4}
    assert all(15 * 2**30 < w["memory_limit"] <= 16 * 2**30 for w in workers)


def test_tags_are_on_every_volume_and_interface_and_stay(cluster, sim):
    """Costs are counted by them; a task on a host can't move them to another cluster."""
    workspace = Workspace.load()
    ec2, run = workspace.aws.client("ec2"), workspace.deployment("shared").run()
    hosts = wait_for_tags(ec2, "default", "shared", 1 + len(cluster.observed))
    assert {one.tags["terradask:role"] for one in hosts} == {"scheduler", "worker"}
    for one in hosts:
        assert one.tags["cost-centre"] == "4711"
        assert one.tags["terradask:run:id"] == run.run_id
        assert one.tags["terradask:run:owner"]
    mine, elsewhere = whose("default", "mine"), whose("mine", "shared")
    with contextlib.ExitStack() as stack:
        strangers, fresh = make_volume(ec2, stack, []), make_volume(ec2, stack, mine[:1])
        owner = Account(sim, sim.environ, stack)
        for role in ("scheduler", "worker"):
            theirs = host(owner, sim, stack, f"terradask-default-{role}").client("ec2")
            for one in hosts:
                for part in (*one.parts, one.instance_id):
                    assert refused(theirs.create_tags, Resources=[part], Tags=mine)
                    assert refused(theirs.delete_tags, Resources=[part], Tags=mine[1:2])
            assert refused(theirs.create_tags, Resources=[strangers], Tags=mine)
            assert refused(theirs.create_tags, Resources=[fresh], Tags=elsewhere)
            assert refused(theirs.create_tags, Resources=[fresh, strangers], Tags=mine)


def test_its_repr_says_what_it_is(cluster, client):
    text = repr(cluster)
    assert "'shared'" in text
    assert "workers=2/2" in text
    assert cluster.zone in text
    assert cluster.name in cluster._repr_html_()


def test_scaling_down_loses_no_result(cluster, client):
    cluster.scale(4)
    cluster.wait_for_workers(4, timeout=HANG_SECONDS)
    assert cluster.recommendations(5) == {"status": "up", "n": 5}
    futures, before = unique_results(client, cluster)
    cluster.scale(2)
    eventually(lambda: len(cluster.observed) == 2)
    assert client.gather(futures) == before


def test_more_than_max_workers_is_refused_before_any_call(cluster):
    with pytest.raises(InvalidInput, match="max_workers"):
        cluster.scale(9)
    with pytest.raises(InvalidInput, match="max_workers"):
        cluster.adapt(minimum=0, maximum=9)
    with pytest.raises(InvalidInput, match="maximum"):
        cluster.adapt(minimum=0, maximum=float("inf"))


def test_a_second_process_attaches_by_name_scales_and_leaves_it_running(cluster, client):
    out = run_python(
        """
import json
from terradask import Cluster
with Cluster("shared") as cluster, cluster.get_client() as client:
    cluster.scale(3)
    cluster.wait_for_workers(3, timeout=100)
    answer = client.submit(sum, [1, 1]).result()
    facts = [cluster.origin, cluster.shutdown_on_close, cluster.scheduler_address, answer]
    print(json.dumps(facts))
"""
    )
    assert json.loads(out) == ["attached", False, cluster.scheduler_address, 2]
    eventually(lambda: len(cluster.plan) == 3)
    assert client.submit(sum, [2, 2]).result() == 4


@pytest.mark.life
def test_a_forked_process_attaches_anew_and_leaves_its_parents_cluster_alone(cluster, client):
    """Its end neither waits for anything of the parent's nor ends it."""
    out = run_python(
        """
import json, os, signal, sys
import dask
from distributed import Client
from terradask import Cluster, Workspace
cluster, workspace = Cluster.from_name("shared"), Workspace.load()
client = cluster.get_client()
kept = client.submit(sum, [1, 1])
facts = [kept.result(), cluster.get_client() is client, workspace.aws.account_id]
if (child := os.fork()) == 0:
    signal.alarm(100)
    assert not Client._instances or all(each.status == "closed" for each in Client._instances)
    assert dask.config.get("scheduler", None) is None
    del kept
    names = workspace.deployment("shared").status().state
    with Cluster.from_name("shared") as own, own.get_client() as other:
        assert other is not client
        answer = other.submit(len, other.scatter(b"." * 30_000_000)).result()
    print(json.dumps([*facts, names, answer]), flush=True)
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), client.submit(sum, [2, 2]).result()]))
print(json.dumps([kept.result(), workspace.deployment("shared").status().state]))
cluster.close()
"""
    )
    account = "123456789012"
    assert [json.loads(line) for line in out.splitlines()] == [
        [2, True, account, "running", 30_000_000],
        [7, 4],
        [2, "running"],
    ]


def test_asynchronous_attach(cluster, client):
    async def use():
        async with (
            Cluster("shared", asynchronous=True) as other,
            Client(other, asynchronous=True) as c,
        ):
            return other.origin, await c.submit(sum, [3, 3])

    assert asyncio.run(use()) == ("attached", 6)


def test_an_attached_cluster_of_other_structure_is_refused(cluster):
    with pytest.raises(InvalidInput, match="settings other than") as caught:
        Cluster("shared", worker_vm_types=["c6i.large"])
    assert "c6i.large" in str(caught.value)


def test_a_dead_worker_is_replaced_once_and_mirrored(cluster, client, sim):
    victim = next(iter(cluster.observed))
    sim.kill_host(victim)
    eventually(lambda: len(cluster.observed) == 2 and victim not in cluster.observed)
    # The scheduler may have seen all of it before the group was looked at again.
    eventually(lambda: cluster.plan == cluster.observed)


def test_what_dask_restarts_comes_back_under_the_same_names(cluster, client):
    before = cluster.observed
    client.restart(timeout=HANG_SECONDS)
    eventually(lambda: cluster.observed == before)
    assert client.submit(sum, [1, 2]).result(HANG_SECONDS) == 3


def test_status_and_list_from_any_process(cluster, client):
    status = Workspace.load().deployment("shared").status()
    assert status.state == "running"
    assert status.groups["workers"]["desired"] == 2
    assert {h.state for h in status.hosts if h.instance_id in cluster.observed} == {"running"}
    json.dumps(status.as_dict())
    assert "shared" in [d.name for d in Workspace.load().deployments()]
    told = cluster.events()
    assert told == sorted(told, key=lambda event: event.at)
    joined = {event.subject for event in told if event.state == "joined"}
    assert cluster.observed <= joined
    assert all(event.reason for event in told if event.state == "requested")
