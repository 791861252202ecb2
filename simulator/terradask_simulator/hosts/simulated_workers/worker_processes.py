"""The daemon's side of hollow hosts: processes for a hundred instances each, told which begin and which end."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from terradask_simulator.aws.credentials import RoleCredentials, RoleKeys
from terradask_simulator.aws.instances import InstanceView, end_instance
from terradask_simulator.hosts.cloud_config import BootFailed, parse_cloud_config, write_files
from terradask_simulator.hosts.faults import HostFaults
from terradask_simulator.hosts.host_table import host_row
from terradask_simulator.hosts.memory import forget_run, make_run
from terradask_simulator.hosts.processes import MARK

__all__ = ["HollowHosts"]

_log = logging.getLogger(__name__)

#: Instances in one process: its import of Dask costs as much as twenty workers.
CREW_SIZE = 100

#: From the end of a crew's last instance to SIGKILL.
_LEAVE_SECONDS = 10.0


class Crew:
    """One process with the workers of one cluster's run.

    Parameters
    ----------
    folder
        Its own folder.
    first
        The instance that it is started for: the others share its user data and its role.
    endpoint_url
        Where AWS answers.
    credentials
        The role's credentials.
    faults
        What hosts meet.

    Raises
    ------
    BootFailed
        The user data can't be read.
    """

    def __init__(self, folder: Path, first: InstanceView, endpoint_url: str, credentials: RoleCredentials, faults: HostFaults) -> None:
        self.run = run_of(first)
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
            self._process = subprocess.Popen(
                [sys.executable, "-m", "terradask_simulator.hosts.simulated_workers.worker_process", *self.run],
                env={**_environ(folder, root, first.region, endpoint_url, credentials), **faults.timing_environ()},
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """The process's id, or None once it has ended."""
        return self._process.pid if self._process.poll() is None else None

    @property
    def has_room(self) -> bool:
        """Whether another instance of its run may join it."""
        return len(self.members) < CREW_SIZE and not self._kill_at and self.pid is not None

    def begin(self, instance: InstanceView) -> None:
        """Let a worker of this instance join the scheduler."""
        self.members[instance.instance_id] = instance
        tags = {name: instance.tags.get(f"terradask:{name}", "") for name in ("cluster", "role", "group")}
        facts = {"instance_id": instance.instance_id, "private_address": instance.private_address, **tags}
        self._tell({"begin": facts, "broken": self._faults.broken_environments})

    def end(self, instance_id: str, *, vanished: bool = False) -> None:
        """Let a worker leave with its instance; `vanished`: without a word to anybody."""
        del self.members[instance_id]
        self._tell({"vanish" if vanished else "end": instance_id})

    def dismiss(self) -> None:
        """End the process once its last worker has left; kill it when that takes long."""
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

    def _tell(self, document: dict[str, Any]) -> None:
        # A process that is gone is found by the next look.
        with contextlib.suppress(OSError, ValueError):
            self._stdin.write(json.dumps(document).encode() + b"\n")
            self._stdin.flush()


class HollowHosts:
    """The hollow hosts of one simulator.

    Parameters
    ----------
    folder
        Where hosts' folders lie.
    endpoint_url
        Where AWS answers.
    keys
        Where roles' credentials come from.
    faults
        What hosts that begin from now on meet.
    """

    def __init__(self, folder: Path, endpoint_url: str, keys: RoleKeys, faults: HostFaults) -> None:
        self._folder = folder
        self._faults = faults
        self._endpoint_url = endpoint_url
        self._keys = keys
        self._crews: list[Crew] = []
        self._of: dict[str, Crew] = {}
        self._ended: set[str] = set()
        self._count = 0
        self._lock = threading.RLock()

    def __contains__(self, instance_id: object) -> bool:
        return instance_id in self._of or instance_id in self._ended

    def reconcile(self, running: list[InstanceView]) -> None:
        """Bring workers in line with instances.

        Parameters
        ----------
        running
            The running instances that are hosts of workers.
        """
        alive = {instance.instance_id: instance for instance in running}
        with self._lock:
            self._ended &= alive.keys()
            for instance_id in self._of.keys() - alive.keys():
                self._of.pop(instance_id).end(instance_id)
            for instance_id, instance in alive.items():
                if instance_id not in self._of and instance_id not in self._ended:
                    self._begin(instance)
            for crew in list(self._crews):
                self._look_after(crew)

    def _begin(self, instance: InstanceView) -> None:
        try:
            crew = next((crew for crew in self._crews if crew.run == run_of(instance) and crew.has_room), None) or self._open(instance)
        except BootFailed as error:
            self._fail(instance.instance_id, str(error))
            return
        crew.begin(instance)
        self._of[instance.instance_id] = crew

    def _open(self, instance: InstanceView) -> Crew:
        credentials = self._keys.of(instance.instance_id)
        if credentials is None:
            raise BootFailed("The instance has no role")
        self._count += 1
        folder = self._folder / f"hollow-{self._count}"
        folder.mkdir(parents=True)
        crew = Crew(folder, instance, self._endpoint_url, credentials, self._faults)
        self._crews.append(crew)
        return crew

    def _look_after(self, crew: Crew) -> None:
        if crew.pid is None:
            self._crews.remove(crew)
            for instance_id in crew.members:
                del self._of[instance_id]
                self._fail(instance_id, f"its process ended; see {crew.log_path}")
            crew.kill()
        elif not crew.members:
            crew.dismiss()

    def _fail(self, instance_id: str, reason: str) -> None:
        _log.warning("the hollow host of %s failed: %s", instance_id, reason)
        self._ended.add(instance_id)
        end_instance(instance_id, vanished=True)

    def kill(self, instance_id: str) -> bool:
        """Make a host vanish: its worker's connections break, its instance ends as failed.

        Parameters
        ----------
        instance_id
            The instance.

        Returns
        -------
        bool
            Whether there was such a host.
        """
        with self._lock:
            crew = self._of.pop(instance_id, None)
            if crew is None:
                return False
            self._ended.add(instance_id)
            crew.end(instance_id, vanished=True)
        end_instance(instance_id, vanished=True)
        return True

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each host, as `Hosts.table` does."""
        return [
            host_row(instance, state="running", pid=crew.pid, log_path=crew.log_path)
            for crew in list(self._crews)
            for instance in list(crew.members.values())
        ]

    def stop(self) -> None:
        """End every process."""
        for crew in self._crews:
            crew.kill()


def run_of(instance: InstanceView) -> tuple[str, str]:
    """Return an instance's cluster and run."""
    return instance.tags.get("terradask:cluster", ""), instance.tags.get("terradask:run:id", "")


def _environ(folder: Path, root: Path, region: str, endpoint_url: str, credentials: RoleCredentials) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "TMPDIR": str(root / "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_SESSION_TOKEN": credentials.token,
        MARK: str(root),
    }
