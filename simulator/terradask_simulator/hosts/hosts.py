"""Boots a machine for each running instance, and ends it with the instance."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from terradask_simulator.aws.credentials import RoleKeys
from terradask_simulator.aws.instances import InstanceView, end_instance
from terradask_simulator.aws.network import LoopbackNetwork
from terradask_simulator.hosts.cloud_config import BootFailed
from terradask_simulator.hosts.faults import HostFaults, fill_disk
from terradask_simulator.hosts.host_network import HostNetwork
from terradask_simulator.hosts.machine import GRACE_SECONDS, Machine
from terradask_simulator.hosts.processes import marked_processes
from terradask_simulator.hosts.simulated_workers.child_process import SimulatedWorkers
from terradask_simulator.hosts.wheel import WheelStore

__all__ = ["Hosts"]

_log = logging.getLogger(__name__)

#: Maximum number of running machines; further instances wait.
MAX_MACHINES = 64

#: Path that the user data of every terradask host writes.
_HOST_FILE = b"/etc/terradask/host.json"


class Hosts:
    """All machines of one simulator."""

    def __init__(
        self,
        folder: Path,
        endpoint_url: str,
        keys: RoleKeys,
        network: LoopbackNetwork,
        faults: HostFaults,
    ) -> None:
        self._folder = folder
        self._endpoint_url = endpoint_url
        self._keys = keys
        self._network = network
        self._host_network = HostNetwork(folder.parent / "network.json", endpoint_url)
        self._wheels = WheelStore(folder.parent / "wheels", endpoint_url)
        self._faults = faults
        self._simulated = SimulatedWorkers(folder, endpoint_url, keys, faults)
        self._machines: dict[str, Machine] = {}
        self._seen: set[str] = set()
        # Booting is disk access and Python start-up: as many at once as processors, plus a waiting
        # one.
        self._booting = ThreadPoolExecutor((os.cpu_count() or 1) + 1, "boot")
        self._ending = ThreadPoolExecutor(32, "end")
        self._boots: dict[str, Future[None]] = {}
        self._ends: dict[str, Future[None]] = {}

    def reconcile(self, instances: list[InstanceView]) -> None:
        """Start and end machines to match the running instances with terradask's user data."""
        self._host_network.write([one.instance for one in list(self._machines.values())])
        running = [instance for instance in instances if _HOST_FILE in instance.user_data]
        self._simulated.reconcile(
            [instance for instance in running if self._is_simulated(instance)]
        )
        alive = {
            instance.instance_id: instance
            for instance in running
            if instance.instance_id not in self._simulated
        }
        # A stopped instance may be started, with the same disk.
        self._seen &= alive.keys()
        for instance_id, machine in list(self._machines.items()):
            if instance_id not in alive:
                self._end(machine)
                continue
            if instance_id in self._ends:
                continue
            self._network.forward(alive[instance_id])
            reason = machine.check()
            if reason is not None:
                self._power_off(machine, reason)
        for instance_id, instance in alive.items():
            is_new = instance_id not in self._seen and instance_id not in self._machines
            if is_new and len(self._machines) < MAX_MACHINES:
                self._seen.add(instance_id)
                self._begin(instance)

    def _is_simulated(self, instance: InstanceView) -> bool:
        new = instance.instance_id not in self._seen
        wanted = (
            bool(self._faults.simulated_workers.on)
            and instance.tags.get("terradask:role") == "worker"
            # What prepares hosts is the host program.
            and "terradask:warm-pool" not in instance.tags
        )
        return instance.instance_id in self._simulated or (new and wanted)

    def _begin(self, instance: InstanceView) -> None:
        folder = self._folder / instance.instance_id
        folder.mkdir(parents=True, exist_ok=True)
        machine = Machine(instance, folder, self._endpoint_url, self._host_network, self._faults)
        machine.log(f"{instance.instance_type} at {instance.private_address}")
        self._machines[instance.instance_id] = machine
        self._boots[instance.instance_id] = self._booting.submit(self._boot, machine)

    def _boot(self, machine: Machine) -> None:
        instance_id = machine.instance.instance_id
        try:
            if not machine.begin_boot():
                return
            metadata_endpoint = self._network.open_metadata(machine.instance)
            self._network.forward(machine.instance)
            if machine.prepare(self._wheels, self._keys.of(instance_id), metadata_endpoint):
                machine.start()
        except BootFailed as error:
            self._boot_failed(machine, str(error))
        except Exception as error:  # noqa: BLE001  (the pool of boots would drop the error)
            _log.warning("boot of %s failed", instance_id, exc_info=True)
            self._boot_failed(machine, repr(error))

    def _boot_failed(self, machine: Machine, reason: str) -> None:
        machine.log(f"boot failed: {reason}")
        if machine.fail():
            credentials = self._keys.of(machine.instance.instance_id)
            try:
                self._wheels.report_failure(
                    machine.instance, machine.root, credentials, f"boot.sh failed: {reason}"
                )
            except BootFailed as error:
                machine.log(str(error))
            self._power_off(machine, "boot failed")

    def _power_off(self, machine: Machine, reason: str) -> None:
        machine.log(f"power off: {reason}")
        end_instance(machine.instance.instance_id)
        self._end(machine)

    def _end(self, machine: Machine, grace_seconds: float = GRACE_SECONDS) -> None:
        instance_id = machine.instance.instance_id
        if instance_id not in self._ends:
            self._ends[instance_id] = self._ending.submit(self._finish, machine, grace_seconds)

    def _finish(self, machine: Machine, grace_seconds: float) -> None:
        instance_id = machine.instance.instance_id
        try:
            boot = self._boots.pop(instance_id, None)
            if boot is not None and not boot.cancel():
                machine.give_up()
                wait([boot])
            machine.end(grace_seconds=grace_seconds)
            self._network.close(instance_id)
            self._keys.forget(instance_id)
        except Exception:
            _log.exception("ending %s failed", instance_id)
            raise
        finally:
            self._machines.pop(instance_id, None)
            self._ends.pop(instance_id, None)

    def kill(self, instance_id: str) -> bool:
        """Kill a machine's processes and end its instance as failed; return whether the machine
        exists.
        """
        machine = self._machines.get(instance_id)
        if machine is None:
            return self._simulated.kill(instance_id)
        machine.end(grace_seconds=0)
        end_instance(instance_id, vanished=True)
        self._end(machine, 0)
        return True

    def fill_disk(self, instance_id: str) -> bool:
        """Fill a machine's disk from now on, and return whether the machine exists: simulated
        workers have no disk.
        """
        machine = self._machines.get(instance_id)
        if machine is not None:
            fill_disk(marked_processes([machine.mark]))
        return machine is not None

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each host, for the daemon's control API."""
        machines = list(self._machines.values())
        return [
            *(_row(instance, "running", pid, log) for instance, pid, log in self._simulated.all()),
            *(_row(one.instance, one.state, one.pid, one.log_path) for one in machines),
        ]

    def stop(self, grace_seconds: float) -> None:
        """End every machine."""
        self._booting.shutdown(wait=False, cancel_futures=True)
        self._simulated.stop()
        for machine in list(self._machines.values()):
            self._end(machine, grace_seconds)
        self._booting.shutdown(wait=True)
        self._ending.shutdown(wait=True)
        self._host_network.close()


def _row(instance: InstanceView, state: str, pid: int | None, log_path: Path) -> dict[str, Any]:
    return {
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "role": instance.tags.get("terradask:role", ""),
        "cluster": instance.tags.get("terradask:cluster", ""),
        "group": instance.tags.get("terradask:group", ""),
        "state": state,
        "pid": pid,
        "private_address": instance.private_address,
        "public_address": instance.public_address,
        "log_path": str(log_path),
    }
