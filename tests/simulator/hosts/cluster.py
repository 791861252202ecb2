"""Clusters whose hosts are processes, started one by one by a test."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import Client

from terradask_host.documents import SchedulerAddress, now_text, sha256_of
from terradask_simulator.aws.instances import loopback_of
from terradask_simulator.hosts.memory import forget_run, make_run

from ...forked_hosts import spawn_program
from ...waiting import HANG_SECONDS, eventually
from .account import BUCKET, LOG_GROUP, REGION, ROLE_ARN, Account
from .authority import RUN_ID, Authority, client_security
from .metadata import Metadata
from .processes import children

UMASK = 0o022
PORT, DASHBOARD_PORT = 8786, 8787

#: Retired and silent hosts need not wait as long as on AWS.
QUICK = {
    "retired_grace_seconds": 1.0,
    "log_flush_seconds": 0.5,
    "dask_restart_pause_seconds": 0.1,
    "leave_seconds": 30.0,
    "member_patience_seconds": 2.0,
}


class Cluster:
    """A cluster whose groups exist on moto and whose hosts are started one by one."""

    #: Ports are fixed, so that clusters differ by their addresses: also from those of tests that
    #: run beside these.
    _network = (
        f"127.{33 + int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')) % 30}"
    )
    _subnets = itertools.count(random.randrange(250))

    def __init__(
        self, account: Account, folder: Path, name: str, *, workers: int = 2, **changes: Any
    ) -> None:
        self.account, self.folder, self.name = account, folder, name
        self.subnet = f"{self._network}.{next(self._subnets) % 250}"
        self.authority = Authority()
        self.secret = self.authority.secret()
        self.groups = {role: f"terradask-hosts-{name}-{role}" for role in ("scheduler", "workers")}
        self.scheduler_id = account.group(self.groups["scheduler"], 1)[0]
        self.worker_ids = account.group(self.groups["workers"], workers)
        self.hosts: list[HostProcess] = []
        account.secrets.create_secret(Name=self.secret_id)
        structure = {
            "groups": {
                "scheduler": {
                    "autoscaling_group": self.groups["scheduler"],
                    "role": "scheduler",
                    "max_size": 1,
                },
                "workers": {
                    "autoscaling_group": self.groups["workers"],
                    "role": "worker",
                    "max_size": 10,
                },
            },
            "scheduler": {
                "class": "distributed.Scheduler",
                # Its pages take as long to import as all the rest, and no test here opens one.
                "options": {"dashboard": False},
                "port": PORT,
                "dashboard_port": DASHBOARD_PORT,
            },
            "worker": {"class": "distributed.Nanny", "options": {}},
        } | changes
        self.run = {
            "format": 1,
            "run_id": RUN_ID,
            "started_at": now_text(),
            "owner": "arn:aws:iam::123456789012:user/ada",
            "n_workers": workers,
            "secret_version_id": "v1",
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "packages": {},
            "environ": {"FLAVOUR": "vanilla"},
            "dask_config": {"distributed": {"worker": {"memory": {"target": 0.55}}}},
            "structure": structure,
            "host_roles": {role: [ROLE_ARN] for role in ("scheduler", "worker")},
        }
        self.start()

    @property
    def secret_id(self) -> str:
        return f"terradask/hosts/{self.name}"

    def start(self, lock: str = "", **changes: Any) -> None:
        """Write the documents of the run, with changes of ``run.json``, and the secret that binds
        them.
        """
        documents = {
            "run.json": json.dumps(self.run | changes).encode(),
            "software.lock": lock.encode(),
        }
        for name, content in documents.items():
            self.plant(name, content)
        digests = {name: sha256_of(content) for name, content in documents.items()}
        self.account.secrets.put_secret_value(
            SecretId=self.secret_id,
            SecretString=json.dumps(
                {**self.secret, "run_id": changes.get("run_id", RUN_ID), "sha256": digests}
            ),
        )

    def plant(self, name: str, content: bytes) -> None:
        """Write an object as it is."""
        self.account.s3.put_object(Bucket=BUCKET, Key=f"clusters/{self.name}/{name}", Body=content)

    def put(self, name: str, document: dict[str, Any]) -> None:
        self.account.put(f"clusters/{self.name}/{name}", document)

    def get(self, name: str) -> dict[str, Any] | None:
        return self.account.get(f"clusters/{self.name}/{name}")

    def address(self, **facts: Any) -> dict[str, Any]:
        """Return what ``scheduler.json`` would say of a scheduler here."""
        address = f"tls://{self.subnet}.10:{PORT}"
        return (
            SchedulerAddress(
                RUN_ID, self.scheduler_id, 1, address, None, DASHBOARD_PORT, "3.12", {}
            ).to_document()
            | facts
        )

    def scheduler(self, **changes: Any) -> HostProcess:
        return self._host(self.scheduler_id, "scheduler", "scheduler", "10", **changes)

    def worker(self, number: int, **changes: Any) -> HostProcess:
        return self._host(self.worker_ids[number], "worker", "workers", str(20 + number), **changes)

    def _host(
        self, instance_id: str, role: str, group: str, last: str, **changes: Any
    ) -> HostProcess:
        host = HostProcess(self, instance_id, role, group, f"{self.subnet}.{last}", **changes)
        self.hosts.append(host)
        return host

    def desired(self, group: str) -> int:
        return self.account.describe(self.groups[group])["DesiredCapacity"]

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        document = self.get("scheduler.json")
        assert document is not None
        with Client(
            document["private_address"],
            security=client_security(self.secret),
            timeout=f"{HANG_SECONDS}s",
        ) as client:
            yield client

    def close(self) -> None:
        for host in self.hosts:
            host.close()


class HostProcess:
    """One instance: its metadata service, its root folder and the host program."""

    def __init__(
        self,
        cluster: Cluster,
        instance_id: str,
        role: str,
        group: str,
        address: str,
        *,
        python: str = sys.executable,
        timing: dict[str, float] | None = None,
        tag_run_id: str | None = RUN_ID,
        life_cycle: str = "on-demand",
        notify_topic_arn: str | None = None,
        endpoints: dict[str, str] | None = None,
        lacks: str | None = None,
        broken: str | None = None,
    ) -> None:
        self.cluster, self.instance_id, self.address = cluster, instance_id, address
        facts = {
            "instance-id": instance_id,
            "instance-life-cycle": life_cycle,
            "local-ipv4": address,
            "placement/availability-zone": "us-east-1a",
            "tags/instance/terradask:cluster": cluster.name,
            "tags/instance/terradask:role": role,
            "tags/instance/terradask:group": group,
        }
        if role == "scheduler":
            facts["public-ipv4"] = "127.200.0.1"
        if tag_run_id:
            facts["tags/instance/terradask:run:id"] = tag_run_id
        if lacks:
            del facts[lacks]
        self.metadata = Metadata(facts)
        if broken:
            self.metadata.broken.add(broken)
        self.root = cluster.folder / cluster.name / instance_id
        # A host program that is started again finds what the one before has left.
        (self.root / "etc/terradask").mkdir(parents=True, exist_ok=True)
        (self.root / "etc/terradask/host.json").write_text(
            json.dumps(
                {
                    "format": 1,
                    "workspace": "hosts",
                    "region": REGION,
                    "bucket": BUCKET,
                    "log_group": LOG_GROUP,
                    "wheel": {"key": "k", "sha256": "s"},
                    "notify_topic_arn": notify_topic_arn,
                }
            )
        )
        environ = {
            k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TERRADASK_", "DASK_"))
        }
        environ |= {
            "AWS_ENDPOINT_URL": cluster.account.endpoint,
            **(endpoints or {}),
            **cluster.account.session(instance_id),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.endpoint,
            "TERRADASK_HOST_ROOT": str(self.root),
            "TERRADASK_HOST_PYTHON": python,
            "TERRADASK_HOST_LOOPBACK": self.loopback,
            "TERRADASK_HOST_CPU_COUNT": "3",
            "TERRADASK_HOST_MEMORY_BYTES": str(4 * 2**30),
            "TERRADASK_HOST_TIMING": json.dumps(QUICK | (timing or {})),
        }
        make_run(self.root)
        self.log_path = self.root / "host.log"
        self.started = time.monotonic()
        with self.log_path.open("wb") as log:
            account = cluster.account
            self.process = spawn_program(
                account.forks,
                ["terradask_host"],
                environ,
                Path.cwd(),
                UMASK,
                log,
                dask=account.forks_dask,
            )

    @property
    def loopback(self) -> str:
        """The address that stands for its own loopback."""
        return loopback_of(self.address)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def report(self) -> dict[str, Any]:
        return self.cluster.get(f"hosts/{self.instance_id}.json") or {}

    def wait_state(self, state: str, timeout_seconds: float = HANG_SECONDS) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            report = self.report()
            assert state == "failed" or report.get("state") != "failed", report
            return report if report.get("state") == state else None

        return eventually(
            there,
            seconds=timeout_seconds,
            explain=lambda: f"{self.instance_id} is not {state}\n{self.log}",
        )

    def wait_exit(self, timeout_seconds: float = HANG_SECONDS) -> int:
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.instance_id} did not end:\n{self.log}") from None

    def dask_pid(self) -> int:
        (pid,) = children(self.process.pid)
        return pid

    def states(self) -> list[str]:
        return [state for state, _ in self.report()["history"]]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        forget_run(self.root)
        self.metadata.close()
