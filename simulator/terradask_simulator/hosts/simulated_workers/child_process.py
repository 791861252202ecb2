"""The daemon's side of one worker process: starts it, sends it which instances begin
and which end.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from terradask_simulator.aws.credentials import RoleCredentials
from terradask_simulator.aws.instances import InstanceView
from terradask_simulator.hosts.cloud_config import parse_cloud_config, write_files
from terradask_simulator.hosts.faults import HostFaults
from terradask_simulator.hosts.memory import forget_run, make_run
from terradask_simulator.hosts.processes import MARK

__all__ = ["ChildProcess", "run_of", "spawn"]

_PROGRAM = "terradask_simulator.hosts.simulated_workers.worker_process"

#: Instances in one process: its import of Dask costs as much as twenty workers.
MAX_INSTANCES = 100

#: From the end of a process's last instance to SIGKILL.
_LEAVE_SECONDS = 10.0


class ChildProcess:
    """A process with the workers of one cluster's run, started for its first instance: the others
    share its user data and its role.
    """

    def __init__(
        self,
        folder: Path,
        first: InstanceView,
        endpoint_url: str,
        credentials: RoleCredentials,
        faults: HostFaults,
    ) -> None:
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
            environ = _environ(folder, root, first.region, endpoint_url, credentials)
            self._process = spawn(
                ["-m", _PROGRAM, *self.run], {**environ, **faults.timing_environ()}, folder, log
            )

    @property
    def pid(self) -> int | None:
        """The process's id, or None once it has ended."""
        return self._process.pid if self._process.poll() is None else None

    @property
    def has_room(self) -> bool:
        """Whether another instance of its run may join it."""
        return len(self.members) < MAX_INSTANCES and not self._kill_at and self.pid is not None

    def begin(self, instance: InstanceView, credentials: RoleCredentials) -> None:
        """Let a worker of this instance join the scheduler; credentials are the instance's own."""
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
        """Let a worker be drained, and leave, to be replaced."""
        self._send({"recommend": instance_id})

    def end(self, instance_id: str, *, vanished: bool = False) -> None:
        """Let a worker leave with its instance; `vanished`: its connections break."""
        del self.members[instance_id]
        self._send({"vanish" if vanished else "end": instance_id})

    def leave(self) -> None:
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

    def _send(self, document: dict[str, Any]) -> None:
        # A process that is gone is found by the next pass.
        with contextlib.suppress(OSError, ValueError):
            self._stdin.write(json.dumps(document).encode() + b"\n")
            self._stdin.flush()


def spawn(
    arguments: Sequence[str], environ: Mapping[str, str], folder: Path, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start Python with these arguments, in a session of its own and with a pipe for its input;
    what it writes goes into `log`.
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


def run_of(instance: InstanceView) -> tuple[str, str]:
    """Return an instance's cluster and run."""
    return instance.tags.get("terradask:cluster", ""), instance.tags.get("terradask:run:id", "")


def _environ(
    folder: Path, root: Path, region: str, endpoint_url: str, credentials: RoleCredentials
) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
        ),
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
