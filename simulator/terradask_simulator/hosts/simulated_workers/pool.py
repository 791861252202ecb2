"""Simulated workers of running instances: processes for a hundred of them each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from terradask_simulator.aws.credentials import RoleCredentials, RoleKeys
from terradask_simulator.aws.fidelity.spot import notices_of
from terradask_simulator.aws.instances import InstanceView, end_instance
from terradask_simulator.hosts.cloud_config import BootFailed
from terradask_simulator.hosts.faults import HostFaults
from terradask_simulator.hosts.simulated_workers.child_process import ChildProcess, run_of

__all__ = ["SimulatedWorkers"]

_log = logging.getLogger(__name__)


class SimulatedWorkers:
    """The simulated workers of one simulator, in as many processes as they need."""

    def __init__(self, folder: Path, endpoint_url: str, keys: RoleKeys, faults: HostFaults) -> None:
        self._folder = folder
        self._faults = faults
        self._endpoint_url = endpoint_url
        self._keys = keys
        self._processes: list[ChildProcess] = []
        self._of: dict[str, ChildProcess] = {}
        self._ended: set[str] = set()
        #: Those that are told that AWS recommends to replace them.
        self._recommended: set[str] = set()
        self._count = 0
        self._lock = threading.RLock()

    def __contains__(self, instance_id: object) -> bool:
        return instance_id in self._of or instance_id in self._ended

    def reconcile(self, running: list[InstanceView]) -> None:
        """Bring workers in line with instances."""
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
                if process.run == run_of(instance) and process.has_room
            )
            process = next(roomy, None) or self._open(instance, credentials)
        except BootFailed as error:
            self._fail(instance.instance_id, str(error))
            return
        process.begin(instance, credentials)
        self._of[instance.instance_id] = process

    def _open(self, instance: InstanceView, credentials: RoleCredentials) -> ChildProcess:
        self._count += 1
        folder = self._folder / f"hollow-{self._count}"
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
        """Make a host vanish: its worker's connections break, its instance ends as failed; return
        whether there was such a host.
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
        """Yield each host's instance, and its process's id and log."""
        for process in list(self._processes):
            for instance in list(process.members.values()):
                yield instance, process.pid, process.log_path

    def stop(self) -> None:
        """End every process."""
        for process in self._processes:
            process.kill()
