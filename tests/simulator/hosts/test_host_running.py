"""A running cluster: hosts find each other, tell where they are, compute, and stay behind TLS."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import dask
import distributed
import pytest
from distributed import Client, Worker
from distributed.security import Security

from terradask_host.agent.keys import check_in_memory
from terradask_host.preload.instance_proofs import startup_information

from ...waiting import HANG_SECONDS, eventually, eventually_async
from .account import LOG_GROUP, REGION
from .authority import RUN_ID, Authority, client_security
from .cluster import DASHBOARD_PORT, PORT, Cluster
from .intruders import INTRUDERS, ROLES, context_of, doors
from .processes import family, listening, listening_files

pytestmark = pytest.mark.simulator

#: Dask's processes start from nothing, as on a real host.
FRESH_DASK = True


def test_workers_that_booted_before_their_scheduler_join_it(cluster: Cluster) -> None:
    worker = cluster.hosts[0]
    assert worker.states() == ["booting", "environment", "waiting", "starting", "running"]
    assert cluster.hosts[2].states() == ["booting", "environment", "starting", "running"]
    report = worker.report()
    assert report["run_id"] == RUN_ID
    assert (report["role"], report["group"], report["private_address"]) == (
        "worker",
        "workers",
        worker.address,
    )
    assert (report["reason"], report["log_tail"]) == (None, [])


def test_the_scheduler_says_where_it_is(cluster: Cluster) -> None:
    document = cluster.get("scheduler.json")
    assert document is not None
    started_at = document.pop("started_at")
    assert datetime.datetime.fromisoformat(started_at) <= datetime.datetime.now(datetime.UTC)
    assert document == {
        "format": 1,
        "run_id": RUN_ID,
        "instance_id": cluster.scheduler_id,
        "boot": 1,
        "scaling": {},
        "exchanges": {},
        "numbers": {},
        "private_address": f"tls://{cluster.subnet}.10:8786",
        "public_address": "tls://127.200.0.1:8786",
        "dashboard_port": 8787,
        "packages": {"dask": dask.__version__, "distributed": distributed.__version__},
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def test_a_client_computes_on_workers_named_like_their_instances(cluster: Cluster) -> None:
    with cluster.client() as client:
        assert client.submit(sum, range(1000)).result(HANG_SECONDS) == 499500
        workers = client.scheduler_info(n_workers=-1)["workers"]
    assert {worker["name"] for worker in workers.values()} == set(cluster.worker_ids[:2])
    assert {worker["host"] for worker in workers.values()} == {
        f"{cluster.subnet}.20",
        f"{cluster.subnet}.21",
    }
    assert all(address.startswith("tls://") for address in workers)
    assert {worker["nthreads"] for worker in workers.values()} == {3}
    assert {worker["memory_limit"] for worker in workers.values()} == {4 * 2**30 - 256 * 2**20}


def test_environ_and_dask_configuration_reach_the_workers_alone(cluster: Cluster) -> None:
    def look() -> tuple[Any, ...]:
        import dask

        return (
            os.environ["FLAVOUR"],
            os.environ["AWS_REGION"],
            os.environ["HOME"],
            dask.config.get("distributed.worker.memory.target"),
            dask.config.get("distributed.comm.require-encryption"),
            dask.config.get("distributed.comm.tls.min-version"),
        )

    with cluster.client() as client:
        answers = client.run(look)
    homes = {str(host.root / "var/lib/terradask") for host in cluster.hosts[:2]}
    assert {answer[2] for answer in answers.values()} == homes
    assert {answer[:2] + answer[3:] for answer in answers.values()} == {
        ("vanilla", REGION, 0.55, True, 1.3)
    }
    agent = Path(f"/proc/{cluster.hosts[0].process.pid}/environ").read_bytes()
    assert b"FLAVOUR" not in agent


def test_a_task_can_open_a_client_of_its_own(cluster: Cluster) -> None:
    def nested() -> int:
        from distributed import get_client

        return get_client().submit(len, "four").result(HANG_SECONDS)

    with cluster.client() as client:
        assert client.submit(nested, pure=False).result(HANG_SECONDS) == 4


def test_the_watchdog_schedule_is_half_an_hour_ahead_on_each_group(cluster: Cluster) -> None:
    actions = {}
    for group in cluster.groups.values():
        found = cluster.account.autoscaling.describe_scheduled_actions(AutoScalingGroupName=group)
        actions |= {
            action["ScheduledActionName"]: action for action in found["ScheduledUpdateGroupActions"]
        }
    assert set(actions) == {f"{group}-dead-man" for group in cluster.groups.values()}
    now = datetime.datetime.now(datetime.UTC)
    for action in actions.values():
        assert action["DesiredCapacity"] == 0
        assert action["MinSize"] == 0
        assert "MaxSize" not in action
        ahead = action["StartTime"] - now
        assert datetime.timedelta(minutes=25) < ahead < datetime.timedelta(minutes=31)


def test_log_lines_reach_cloudwatch_without_a_secret(cluster: Cluster) -> None:
    worker = cluster.worker_ids[0]

    def lines() -> str:
        events = cluster.account.logs.get_log_events(
            logGroupName=LOG_GROUP, logStreamName=f"etl/{RUN_ID}/workers/{worker}"
        )["events"]
        return "\n".join(event["message"] for event in events)

    text = eventually(lambda: lines() if "joining tls://" in lines() else None)
    assert "Start Nanny at" in text
    assert "BEGIN" not in text
    for host in cluster.hosts:
        assert "PRIVATE KEY" not in host.log
        assert "vanilla" not in host.log


def test_a_host_listens_where_the_documentation_says_and_nowhere_else(cluster: Cluster) -> None:
    worker, scheduler = cluster.hosts[0], cluster.hosts[2]
    with cluster.client() as client:
        assert client.submit(sum, [1, 2], pure=False).result(HANG_SECONDS) == 3
    assert sorted(listening(scheduler.process.pid)) == [
        (host, port)
        for host in sorted((scheduler.address, scheduler.loopback))
        for port in (PORT, DASHBOARD_PORT)
    ]
    (dashboard,) = listening_files(scheduler.process.pid)
    assert dashboard.endswith("run/terradask/dashboard.sock")
    # The nanny and its worker; neither has a web server.
    outside = listening(worker.process.pid)
    assert len(outside) == 2
    assert listening_files(worker.process.pid) == []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for address, port in outside:
        assert address == worker.address
        with (
            socket.create_connection((address, port), 5) as plain,
            context.wrap_socket(plain) as secure,
        ):
            assert secure.version() == "TLSv1.3"
            with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
                secure.recv(1)


def test_the_doors_open_for_those_that_they_are_for(cluster: Cluster, tmp_path: Path) -> None:
    """What the tests of refusals below would see if nobody were refused."""
    for door in doors(cluster):
        entered = [
            role
            for role in ROLES
            if door.lets_in(context_of(cluster.authority.pem, cluster.secret[role], tmp_path))
        ]
        # Dask asks for a certificate of the authority and for nothing else; the dashboard for the
        # client's.
        assert entered == (["client"] if door.name == "dashboard" else list(ROLES)), door.name


@pytest.mark.parametrize("intruder", sorted(INTRUDERS))
def test_everybody_else_is_refused_at_every_door(
    cluster: Cluster, tmp_path: Path, intruder: str
) -> None:
    assert len(doors(cluster)) == 4
    for role in ROLES:
        context = INTRUDERS[intruder](cluster.authority, role, tmp_path)
        assert not [door.name for door in doors(cluster) if door.lets_in(context)], role


def test_a_client_of_another_authority_gets_no_connection(cluster: Cluster) -> None:
    document = cluster.get("scheduler.json")
    assert document is not None
    stranger = Authority().secret()
    with pytest.raises(OSError, match=r"Timed out|SSL|ssl|certificate|Cannot connect|unknown ca"):
        Client(document["private_address"], security=client_security(stranger), timeout="2s")


async def test_a_stranger_with_a_workers_certificate_is_refused_and_told(cluster: Cluster) -> None:
    worker = cluster.secret["worker"]
    security = Security(
        require_encryption=True,
        tls_ca_file=cluster.authority.pem,
        tls_worker_cert=worker["cert"],
        tls_worker_key=worker["key"],
    )
    scheduler = next(host for host in cluster.hosts if host.instance_id == cluster.scheduler_id)
    names = ["stranger", f"{cluster.worker_ids[0]}-1", "i-0123456789abcdef0", cluster.scheduler_id]
    proof = {"authorization": "of", "date": "no", "token": "one"}
    for name in names:
        with pytest.raises(RuntimeError, match="failed to start") as caught:
            await Worker(
                f"tls://{cluster.subnet}.10:{PORT}",
                name=name,
                security=security,
                # Their names alone are enough.
                startup_information=startup_information(proof),
                protocol="tls",
                host="127.0.0.1",
                nthreads=1,
                dashboard=False,
                dashboard_address=":0",
            )
        assert "isn't an instance of this cluster" in str(caught.value.__cause__)
    notes = await eventually_async(
        lambda: len(notes := scheduler.report()["notes"]) == len(names) and notes
    )
    assert [note[1:3] for note in notes] == [["workers", "refused"]] * len(names)
    assert all(name in note[3] for name, note in zip(names, notes, strict=True))
    assert set(scheduler.log.split("Register worker addr: tls://127.0.0.1:")) == {scheduler.log}


def test_keys_are_readable_by_their_user_alone_and_in_memory(cluster: Cluster) -> None:
    for host, role in ((cluster.hosts[2], "scheduler"), (cluster.hosts[0], "worker")):
        folder = host.root / "run/terradask"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        more = {"dashboard.sock": 0o600} if role == "scheduler" else {}
        assert files == {"ca.pem": 0o600, f"{role}.pem": 0o600, f"{role}.key": 0o600, **more}
        check_in_memory(folder)


def test_no_process_of_a_host_has_a_key_in_its_arguments_or_its_environment(
    cluster: Cluster,
) -> None:
    keys = [
        line
        for role in ROLES
        for line in cluster.secret[role]["key"].splitlines()
        if len(line) > 40
    ]
    everybody = [pid for host in cluster.hosts for pid in family(host.process.pid)]
    # The host program, the nanny or scheduler, and below the nanny its worker.
    assert len(everybody) >= 3 + 2 + 3
    for pid in everybody:
        for file in ("cmdline", "environ"):
            told = Path(f"/proc/{pid}/{file}").read_text(errors="replace")
            assert "PRIVATE KEY" not in told
            assert "DASK_INTERNAL_INHERIT_CONFIG" not in told
            assert not [line for line in keys if line in told]
