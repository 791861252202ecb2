"""One host: a folder as its disk, and a process group as its unit's service."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from terradask_simulator.aws.instances import InstanceView, loopback_of
from terradask_simulator.hosts.cloud_config import BootFailed, parse_cloud_config, write_files
from terradask_simulator.hosts.faults import HostFaults
from terradask_simulator.hosts.host_network import HostNetwork
from terradask_simulator.hosts.memory import forget_run, make_run
from terradask_simulator.hosts.mounted import mount_all, unmount_all
from terradask_simulator.hosts.processes import (
    host_environ,
    marked_processes,
    signal_all,
    wait_gone,
)
from terradask_simulator.hosts.systemd_unit import Unit, parse_unit
from terradask_simulator.hosts.wheel import BootOutput, WheelStore, read_host_json

__all__ = [
    "GRACE_SECONDS",
    "Machine",
    "instance_size",
    "leave_by_script",
    "set_up_by_script",
    "spawn",
]

#: From SIGTERM to SIGKILL when an instance ends; the host program's unit is given two minutes.
GRACE_SECONDS = 30.0

_UNITS = "etc/systemd/system"
_UNIT = f"{_UNITS}/terradask-host.service"
#: cloud-init's mark that it has run user data, and systemd's that it starts the unit at boots.
_USER_DATA_RAN = "var/lib/cloud/instance/sem/config_scripts_user"
_ENABLED = f"{_UNITS}/multi-user.target.wants/terradask-host.service"
#: Names of the network's own scripts in ``host.json``.
_SCRIPTS = frozenset({"setup", "leave"})
_SCRIPTS_PROGRAM = [sys.executable, "-P", "-m", "terradask_host.host_scripts"]
_POWER_COMMANDS = ("systemctl", "poweroff", "shutdown", "halt")


class Machine:
    """The local machine of one instance."""

    def __init__(
        self,
        instance: InstanceView,
        folder: Path,
        endpoint_url: str,
        network: HostNetwork,
        faults: HostFaults,
    ) -> None:
        self.instance = instance
        self.folder = folder
        self.root = folder / "root"
        self.log_path = folder / "host.log"
        self.boot_output = BootOutput(self.root)
        self.state = "waiting"
        self.unit = Unit()
        self._endpoint_url, self._metadata_endpoint = endpoint_url, ""
        self._network, self._faults = network, faults
        self._wheel: Path | None = None
        self._host: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._starts: deque[float] = deque()
        self._start_at = 0.0
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The id of the host program's process, or None without one."""
        return (
            self._process.pid
            if self._process is not None and self._process.poll() is None
            else None
        )

    @property
    def _makes_an_image(self) -> bool:
        """Whether the instance becomes an image, as boot.sh decides it."""
        return self.instance.tags.get("terradask:role") == "image"

    @property
    def mark(self) -> str:
        """The value of `MARK` in the environment of every process of this host."""
        return str(self.root)

    def log(self, text: str) -> None:
        """Write a line of the simulator into the host's log."""
        with self.log_path.open("a") as log:
            log.write(f"[simulator {time.strftime('%H:%M:%S')}] {text}\n")

    def begin_boot(self) -> bool:
        """Mark the machine as booting, and return whether it may boot; it may not if it was ended
        while waiting.
        """
        with self._lock:
            if self.state != "waiting":
                return False
            self.state = "booting"
            return True

    def fail(self) -> bool:
        """Mark the machine as failed, and return whether its state changed: a machine that is
        ending can't fail.
        """
        with self._lock:
            if self.state in ("ending", "off"):
                return False
            self.state = "failed"
            return True

    def give_up(self) -> None:
        """Keep a booting machine from starting its program, and end the script that it runs."""
        with self._lock:
            booting, self.state = self.state == "booting", "ending"
        if booting:
            signal_all(marked_processes([self.mark]), signal.SIGKILL)

    def prepare(self, wheels: WheelStore, credentials: Any, metadata_endpoint: str) -> bool:
        """Boot, and return whether the unit starts.

        The first boot is like cloud-init and ``boot.sh``: write the files, fetch and check the
        wheel, read the unit, run the network's own setup script, enable the unit. A later one of
        the same disk mounts, and starts the unit if it was enabled.

        AWS (documented): By default, cloud-init runs user data at the first boot alone.
        https://docs.aws.amazon.com/autoscaling/ec2/userguide/warm-pool-instance-lifecycle.html
        """
        self._metadata_endpoint = metadata_endpoint
        began, enabled = self.root / _USER_DATA_RAN, self.root / _ENABLED
        if began.exists():
            return self._boot_again(wheels, credentials) if enabled.exists() else False
        began.parent.mkdir(parents=True, exist_ok=True)
        began.touch()
        self._boot_first(wheels, credentials)
        enabled.parent.mkdir(parents=True, exist_ok=True)
        enabled.touch()
        return True

    def _boot_again(self, wheels: WheelStore, credentials: Any) -> bool:
        make_run(self.root)
        host = self._host = read_host_json(self.root)
        self.unit = parse_unit((self.root / _UNIT).read_text())
        self._wheel = wheels.installed(host)
        self._mount(wheels, credentials)
        return True

    def _boot_first(self, wheels: WheelStore, credentials: Any) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        for folder in ("etc", "opt", "var/log", "tmp"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        make_run(self.root)
        self._write_power_commands()
        self._show_volumes()
        self.boot_output.cloud_init("running 'init'")
        write_files(parse_cloud_config(self.instance.user_data), self.root)
        host = self._host = read_host_json(self.root)
        unit = self.root / _UNIT
        self.unit = parse_unit(unit.read_text() if unit.is_file() else "")
        self.boot_output.cloud_init("running 'modules:final'")
        self._wheel = wheels.fetch(host, credentials)
        if self._makes_an_image:
            self.boot_output.write("terradask-image.service prepares the image")
            return
        if _SCRIPTS & host.keys() and self.state == "booting":
            set_up_by_script(self.root, self._environ(), self.boot_output)
        self._mount(wheels, credentials)
        self.boot_output.write("terradask-host.service starts")
        self.boot_output.cloud_init("finished")

    def _mount(self, wheels: WheelStore, credentials: Any) -> None:
        mount_all(
            self._host,
            self.root,
            shared=self.folder.parent.parent / "file-systems",
            store=wheels,
            credentials=credentials,
            output=self.boot_output,
        )

    def start(self) -> None:
        """Start the host program, unless the machine was ended in the meantime."""
        with self._lock:
            if self.state in ("ending", "off"):
                return
            self._starts.append(time.monotonic())
            self._make_directories()
            with self.log_path.open("ab") as log:
                self._process = spawn(
                    ["terradask_host.image"]
                    if self._makes_an_image
                    else ["terradask_host", *self.unit.arguments],
                    self._environ(),
                    self.folder,
                    self.unit.umask,
                    log,
                )
            self.state = "running"
        self.log(f"started process {self._process.pid}")

    def check(self) -> str | None:
        """Restart the process as systemd would; return why the machine powers off now, or None."""
        if (self.root / "run/terradask-simulator-poweroff").exists():
            return "the host program asked for it"
        if self.state == "restarting" and time.monotonic() >= self._start_at:
            self.start()
        with self._lock:
            # Ending the machine sets its state first: an ended process must not be restarted.
            if self.state != "running" or self._process is None:
                return None
            code = self._process.poll()
            return None if code is None else self._ended(code)

    def _ended(self, code: int) -> str | None:
        self.log(f"the host program ended with {_ending(code)}")
        if not self.unit.restarts(code):
            self.state = "ended"
            well = self.unit.ends_well(code)
            powers_off = (
                self.unit.powers_off_on_success if well else self.unit.powers_off_on_failure
            )
            return f"the host program ended with {_ending(code)}" if powers_off else None
        now = time.monotonic()
        while self._starts and now - self._starts[0] > self.unit.start_limit_seconds:
            self._starts.popleft()
        if self.unit.powers_off_at_restart:
            return f"SuccessAction at a restart, after {_ending(code)}"
        if len(self._starts) < self.unit.start_limit_burst:
            self.state, self._start_at = "restarting", now + self.unit.restart_seconds
            return None
        self.state = "failed"
        reason = (
            f"the host program failed {len(self._starts)} times, the last time with {_ending(code)}"
        )
        self.log(reason)
        return reason if self.unit.powers_off_on_failure else None

    def end(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        """End every process of the machine: SIGTERM first, SIGKILL after a while (0: at once);
        blocks until all are gone.
        """
        with self._lock:
            self.state = "ending"
            process = self._process
        if process is not None:
            if grace_seconds > 0:
                self.log("ending")
                everyone = [process.pid, *marked_processes([self.mark])]
                signal_all(
                    [process.pid] if self.unit.kill_mode != "control-group" else everyone,
                    signal.SIGTERM,
                )
                _wait(process, grace_seconds)
            signal_all(
                [process.pid, *marked_processes([self.mark])] if process.poll() is None else [],
                signal.SIGKILL,
            )
            process.wait()
            if grace_seconds > 0:
                leave_by_script(self.root, self._environ(), self.log_path)
            while not wait_gone([self.mark], 0.2):
                signal_all(marked_processes([self.mark]), signal.SIGKILL)
        forget_run(self.root)
        unmount_all(self._host, self.root)
        self.state = "off"

    def _make_directories(self) -> None:
        for name in self.unit.runtime_directories:
            shutil.rmtree(self.root / "run" / name, ignore_errors=True)
            (self.root / "run" / name).mkdir(parents=True, mode=0o700)
        for path in self.unit.kept_directories:
            (self.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True, mode=0o700)

    def _environ(self) -> dict[str, str]:
        cpu_count, memory_bytes = instance_size(self.instance.instance_type)
        return {
            **self.unit.environment,
            **host_environ(self.folder, self.instance.region, self._endpoint_url),
            "TZ": "UTC",
            **self._network.environ(self.instance, self._wheel),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self._metadata_endpoint,
            "TERRADASK_HOST_PYTHON": sys.executable,
            "TERRADASK_HOST_LOOPBACK": loopback_of(self.instance.private_address),
            "TERRADASK_HOST_CPU_COUNT": str(cpu_count),
            "TERRADASK_HOST_MEMORY_BYTES": str(memory_bytes),
            **self._faults.environ(self.folder),
        }

    def _show_volumes(self) -> None:
        """List the instance's volumes as Linux lists EC2's NVMe controllers. AWS (nvme-serial)"""
        for number, volume_id in enumerate(self.instance.volume_ids):
            controller = self.root / f"sys/class/nvme/nvme{number}"
            controller.mkdir(parents=True, exist_ok=True)
            (controller / "model").write_text("Amazon Elastic Block Store              \n")
            (controller / "serial").write_text(volume_id.replace("-", "") + "\n")

    def _write_power_commands(self) -> None:
        """Shadow the commands that power a machine off: they must not reach this computer."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        flag = self.root / "run/terradask-simulator-poweroff"
        for name in _POWER_COMMANDS:
            script = folder / name
            touch = f"touch {shlex.quote(str(flag))}"
            body = (
                f'case "$*" in *poweroff*|*halt*) {touch};; esac' if name == "systemctl" else touch
            )
            script.write_text(f"#!/bin/sh\n{body}\n")
            script.chmod(0o755)


def spawn(
    program: Sequence[str], environ: Mapping[str, str], folder: Path, umask: int, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a module of the host program in its own session, with its output in `log`."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", *program],
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=umask,
    )


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _ending(code: int) -> str:
    return f"code {code}" if code >= 0 else signal.Signals(-code).name


def instance_size(instance_type: str) -> tuple[int, int]:
    """Return an instance type's number of virtual processors and its memory in bytes."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    known = INSTANCE_TYPES[instance_type]
    return int(known["VCpuInfo"]["DefaultVCpus"]), int(known["MemoryInfo"]["SizeInMiB"]) * 1024**2


# ---- the network's own scripts, by the host program's code ---------------------------------------


def set_up_by_script(root: Path, environ: Mapping[str, str], output: BootOutput) -> None:
    """Run the setup script, with its output in the boot's; it ends by its own time limit.

    Raises
    ------
    BootFailed
        It failed, ran too long, or isn't the one that user data names.
    """
    reason = root / "run/terradask-boot-reason"
    ended = subprocess.run(
        [*_SCRIPTS_PROGRAM, "setup", root / _UNITS, reason],
        env=environ,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    output.add(ended.stdout)
    if ended.returncode:
        given = reason.read_text() if reason.is_file() else ended.stdout[-1000:]
        raise BootFailed(given or f"host_setup ended with {ended.returncode}")


def leave_by_script(root: Path, environ: Mapping[str, str], log_path: Path) -> None:
    """Run the leave script, if the machine got one; its failure holds nothing."""
    if not (root / _UNITS / "terradask-leave.service").is_file():
        return
    with log_path.open("ab") as log:
        subprocess.run(
            [*_SCRIPTS_PROGRAM, "leave"],
            env=environ,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
