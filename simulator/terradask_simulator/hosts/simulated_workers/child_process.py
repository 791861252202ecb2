"""The daemon's side of simulated workers: start processes for a hundred workers each, and send them
beginning and ending instances.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from terradask_simulator.aws.credentials import RoleCredentials, RoleKeys
from terradask_simulator.aws.fidelity.spot import notices_of
from terradask_simulator.aws.instances import InstanceView, end_instance
from terradask_simulator.hosts.cloud_config import BootFailed, parse_cloud_config, write_files
from terradask_simulator.hosts.faults import HostFaults
from terradask_simulator.hosts.memory import forget_run, make_run
from terradask_simulator.hosts.processes import host_environ

__all__ = ["SimulatedWorkers", "spawn"]

_log = logging.getLogger(__name__)

_PROGRAM = "terradask_simulator.hosts.simulated_workers.worker_process"

#: Instances in one process: importing Dask costs as much as twenty workers.
MAX_INSTANCES = 100

#: From the end of a process's last instance to SIGKILL.
_LEAVE_SECONDS = 10.0


class ChildProcess:
    """A process with workers of one cluster's run, started for its first instance; the others share
    that instance's user data and role.
    """

    def __init__(
        self,
        folder: Path,
        first: InstanceView,
        endpoint_url: str,
        credentials: RoleCredentials,
        faults: HostFaults,
    ) -> None:
        self.run = _run_of(first)
        self._faults = faults
        self.members: dict[str, InstanceView] = {}
        self.log_path = folder / "host.log"
        self._kill_at = 0.0
        root = folder / "root"
        for name in ("etc", "var/lib", "tmp"):
            (root / name).mkdir(parents=True, exist_ok=True)
        make_run(root)
        self._root = root
        write_files(parse_cloud_config(first.user_data), root)
        with self.log_path.open("ab") as log:
            environ = {
                **host_environ(folder, first.region, endpoint_url),
                "AWS_ACCESS_KEY_ID": credentials.access_key,
                "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
                "AWS_SESSION_TOKEN": credentials.token,
                **faults.timing_environ(),
            }
            self._process = spawn(["-m", _PROGRAM, *self.run], environ, folder, log)

    @property
    def pid(self) -> int | None:
        """The process's id, or None once it has ended."""
        return self._process.pid if self._process.poll() is None else None

    @property
    def has_capacity(self) -> bool:
        """Whether another instance of its run can be added."""
        return len(self.members) < MAX_INSTANCES and not self._kill_at and self.pid is not None

    def begin(self, instance: InstanceView, credentials: RoleCredentials) -> None:
        """Start an instance's worker, which joins the scheduler with the instance's own
        credentials.
        """
        self.members[instance.instance_id] = instance
        tags = {
            name: instance.tags.get(f"terradask:{name}", "")
            for name in ("cluster", "role", "group")
        }
        facts = {
            "instance_id": instance.instance_id,
            "private_address": instance.private_address,
            **tags,
        }
        self._send(
            {
                "begin": facts,
                "credentials": [credentials.access_key, credentials.secret_key, credentials.token],
                "broken": self._faults.broken_environments.on,
            }
        )

    def recommend(self, instance_id: str) -> None:
        """Drain and retire a worker that is to be replaced."""
        self._send({"recommend": instance_id})

    def end(self, instance_id: str, *, vanished: bool = False) -> None:
        """Remove a worker with its instance; `vanished`: its connections break."""
        del self.members[instance_id]
        self._send({"vanish" if vanished else "end": instance_id})

    def leave(self) -> None:
        """End the process after its last worker; kill it after a time limit."""
        if not self._kill_at:
            self._kill_at = time.monotonic() + _LEAVE_SECONDS
            with contextlib.suppress(OSError):
                self._stdin.close()
        elif time.monotonic() > self._kill_at:
            self.kill()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._stdin.close()
        forget_run(self._root)

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    def _send(self, document: dict[str, Any]) -> None:
        # The next pass detects an ended process.
        with contextlib.suppress(OSError, ValueError):
            self._stdin.write(json.dumps(document).encode() + b"\n")
            self._stdin.flush()


def spawn(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start Python with these arguments, in its own session, with a pipe as its input and its
    output in `log`.
    """
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environ,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _run_of(instance: InstanceView) -> tuple[str, str]:
    """Return an instance's cluster and run."""
    return instance.tags.get("terradask:cluster", ""), instance.tags.get("terradask:run:id", "")


class SimulatedWorkers:
    """The simulated workers of one simulator, in as many processes as needed."""

    def __init__(self, folder: Path, endpoint_url: str, keys: RoleKeys, faults: HostFaults) -> None:
        self._folder = folder
        self._faults = faults
        self._endpoint_url = endpoint_url
        self._keys = keys
        self._processes: list[ChildProcess] = []
        self._of: dict[str, ChildProcess] = {}
        self._ended: set[str] = set()
        #: Instances whose workers got AWS's rebalance recommendation.
        self._recommended: set[str] = set()
        self._count = 0
        self._lock = threading.RLock()

    def __contains__(self, instance_id: object) -> bool:
        return instance_id in self._of or instance_id in self._ended

    def reconcile(self, running: list[InstanceView]) -> None:
        """Start and end workers to match the instances."""
        alive = {instance.instance_id: instance for instance in running}
        with self._lock:
            self._ended &= alive.keys()
            for instance_id in self._of.keys() - alive.keys():
                self._of.pop(instance_id).end(instance_id)
            for instance_id, instance in alive.items():
                if instance_id not in self._of and instance_id not in self._ended:
                    self._begin(instance)
                elif instance_id not in self._recommended and notices_of(instance_id):
                    self._recommend(instance_id)
            for process in list(self._processes):
                self._check(process)

    def _begin(self, instance: InstanceView) -> None:
        credentials = self._keys.of(instance.instance_id)
        try:
            if credentials is None:
                raise BootFailed("The instance has no role")
            roomy = (
                process
                for process in self._processes
                if process.run == _run_of(instance) and process.has_capacity
            )
            process = next(roomy, None) or self._open(instance, credentials)
        except BootFailed as error:
            self._fail(instance.instance_id, str(error))
            return
        process.begin(instance, credentials)
        self._of[instance.instance_id] = process

    def _open(self, instance: InstanceView, credentials: RoleCredentials) -> ChildProcess:
        self._count += 1
        folder = self._folder / f"simulated-{self._count}"
        folder.mkdir(parents=True)
        process = ChildProcess(folder, instance, self._endpoint_url, credentials, self._faults)
        self._processes.append(process)
        return process

    def _recommend(self, instance_id: str) -> None:
        if (process := self._of.get(instance_id)) is not None:
            self._recommended.add(instance_id)
            process.recommend(instance_id)

    def _check(self, process: ChildProcess) -> None:
        if process.pid is None:
            self._processes.remove(process)
            for instance_id in process.members:
                del self._of[instance_id]
                self._fail(instance_id, f"its process ended; see {process.log_path}")
            process.kill()
        elif not process.members:
            process.leave()

    def _fail(self, instance_id: str, reason: str) -> None:
        _log.warning("the simulated worker of %s failed: %s", instance_id, reason)
        self._ended.add(instance_id)
        end_instance(instance_id, vanished=True)

    def kill(self, instance_id: str) -> bool:
        """Break a worker's connections and end its instance as failed; return whether the host
        exists.
        """
        with self._lock:
            process = self._of.pop(instance_id, None)
            if process is None:
                return False
            self._ended.add(instance_id)
            process.end(instance_id, vanished=True)
        end_instance(instance_id, vanished=True)
        return True

    def all(self) -> Iterator[tuple[InstanceView, int | None, Path]]:
        """Yield each host's instance with the id and log of its process."""
        for process in list(self._processes):
            for instance in list(process.members.values()):
                yield instance, process.pid, process.log_path

    def stop(self) -> None:
        """End every process."""
        for process in self._processes:
            process.kill()
