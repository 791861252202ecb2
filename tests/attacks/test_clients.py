"""A task, or a scheduler that a task has taken over, tries to run code in processes of clients."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import urllib.request
import warnings

import pytest
from distributed import Client
from distributed.core import rpc
from distributed.protocol import serialize

from terradask import Cluster

from ..waiting import HANG_SECONDS, eventually
from .payload import Payload, ran_here, ran_in

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def cluster(sim_environ):
    with Cluster(
        "attacked",
        n_workers=1,
        max_workers=2,
        wait_for_workers=True,
        use_dashboard_https=True,
        scheduler_options={"dashboard": True},
    ) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path):
    """Where the payload leaves the ids of the processes that it ran in."""
    (tmp_path / "ran").mkdir()
    return tmp_path / "ran"


def send_events(client, folder):
    """Let a task send the payload by every route of events; return when the client has read what
    came of it.
    """

    def task(warning, header, frames):
        import distributed
        from distributed.protocol import Serialized

        worker = distributed.get_worker()
        worker.log_event("warn", {"message": warning})
        worker.log_event("warn", {"message": b"", "category": warning})
        for topic in ("print", "warn", "other", "all", worker.address):
            event = {"op": "log-event", "topic": topic, "msg": Serialized(header, frames)}
            worker.loop.add_callback(worker.batched_send, event)

    packed = serialize(Payload(folder))
    done = client.submit(task, pickle.dumps(Payload(folder)), *packed, pure=False)
    # Reported on the same connection, after the events.
    assert done.result(HANG_SECONDS) is None


def test_no_event_of_a_task_runs_code_in_a_client(cluster, folder):
    with Client(cluster) as client:
        send_events(client, folder)
        assert not ran_in(folder)
        # Unless its user asked for them: this shows that the events are what they seem.
        cluster.show_task_output(client)
        send_events(client, folder)
        eventually(lambda: ran_here(folder))


def test_what_is_printed_and_warned_is_shown_when_asked(cluster, capfd):
    def task(text):
        import distributed

        distributed.print(text)
        distributed.warn(text)

    with Client(cluster) as client, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client.submit(task, "unasked", pure=False).result(HANG_SECONDS)
        cluster.show_task_output(client)
        client.submit(task, "asked", pure=False).result(HANG_SECONDS)
        eventually(lambda: any(str(each.message) == "asked" for each in caught))
    assert "unasked" not in {str(each.message) for each in caught}
    printed = capfd.readouterr().out.splitlines()
    assert "asked" in printed
    assert "unasked" not in printed


def test_nothing_of_a_worker_runs_code_in_a_cluster_object(cluster, folder):
    """Neither what workers report to the scheduler nor what they answer."""

    def plant(header, frames, *, dask_worker):
        from distributed.protocol import Serialized

        dask_worker.kept = dask_worker.handlers["get_logs"]
        dask_worker.metrics["planted"] = lambda _: Serialized(header, frames)

        def answer(**_):
            dask_worker.asked = True
            return [("INFO", Serialized(header, frames))]

        dask_worker.asked = False
        dask_worker.handlers["get_logs"] = answer

    def was_asked(*, dask_worker):
        return dask_worker.asked

    def remove(*, dask_worker):
        del dask_worker.metrics["planted"]
        dask_worker.handlers["get_logs"] = dask_worker.kept

    with Client(cluster) as client:
        client.run(plant, *serialize(Payload(folder)))
        eventually(lambda: "planted" in str(cluster.sync(seen, cluster)))
        with Cluster.from_name("attacked") as attached:
            # They are read from CloudWatch: no worker is asked.
            attached.get_logs()
        assert not any(client.run(was_asked).values())
        assert not ran_in(folder)
        # A connection that unpacks what it gets would have run it.
        cluster.sync(asked_by_dask, cluster)
        assert ran_here(folder)
        client.run(remove)


async def seen(cluster):
    return await cluster.scheduler_comm.identity(n_workers=-1)


async def asked_by_dask(cluster):
    arguments = cluster.security.get_connection_args("client")
    async with rpc(cluster.scheduler_comm.address, connection_args=arguments) as scheduler:
        await scheduler.identity(n_workers=-1)


def test_no_report_of_a_worker_is_a_script_in_a_notebook(cluster):
    script = "<script>alert(1)</script>"

    def plant(*, dask_scheduler):
        (worker,) = dask_scheduler.workers.values()
        dask_scheduler.kept = worker.local_directory, dask_scheduler.handlers["get_metadata"]
        worker.local_directory = script
        dask_scheduler.handlers["get_metadata"] = lambda **_: {"name": script, "type": script}

    def remove(*, dask_scheduler):
        (worker,) = dask_scheduler.workers.values()
        worker.local_directory, dask_scheduler.handlers["get_metadata"] = dask_scheduler.kept

    with Client(cluster) as client:
        client.run_on_scheduler(plant)
        with Cluster.from_name("attacked") as attached:
            page = attached._repr_html_()
            assert attached.name == "attacked"
        client.run_on_scheduler(remove)
    assert "&lt;script&gt;" in page
    assert script not in page


@pytest.mark.life
def test_the_dashboard_command_speaks_no_protocol_of_dasks(cluster, folder, sim):
    """The scheduler, which a task has taken over, answers calls with something to unpickle."""
    calls = ["identity", "subscribe_worker_status", "get_metadata", "set_metadata"]

    def turn_hostile(header, frames, *, dask_scheduler):
        from distributed.protocol.serialize import Pickled

        dask_scheduler.kept = dict(dask_scheduler.handlers)
        dask_scheduler.handlers |= dict.fromkeys(calls, lambda **_: Pickled(header, frames))

    def turn_back(*, dask_scheduler):
        dask_scheduler.handlers.update(dask_scheduler.kept)

    with Client(cluster) as client:
        packed = {"pickled-obj": pickle.dumps(Payload(folder))}, []
        client.run_on_scheduler(turn_hostile, *packed)
        with dashboard_command(sim, "--shared") as shared:
            assert shared.stdout.readline().startswith("https://")
            assert shared.wait(HANG_SECONDS) == 0
        with dashboard_command(sim) as served:
            link = served.stdout.readline().strip()
            with urllib.request.urlopen(link, timeout=HANG_SECONDS) as page:
                assert page.status == 200
            served.send_signal(signal.SIGINT)
            assert served.wait(HANG_SECONDS) == 0
        # What speaks it runs the payload: this process does.
        cluster.sync(asked_by_dask, cluster)
        client.run_on_scheduler(turn_back)
    assert ran_here(folder)
    assert not ran_in(folder) & {shared.pid, served.pid}


def dashboard_command(sim, *options):
    command = [sys.executable, "-m", "terradask", "dashboard", "attacked", *options]
    return subprocess.Popen(
        command, env=sim.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
