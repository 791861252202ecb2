"""Machines that boot what instances of the embedded AWS would, and what AWS does with their
power.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..waiting import eventually
from .firewall import Firewall, put
from .system import SYSTEM
from .wires import connect

_SCRIPT = Path(__file__).with_name("machine.sh")
#: Where version 2 is, alone or beside version 1.
_CONTROL_GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_LOOK_SECONDS = 0.3
#: No machine boots so fast.
_BRIEF_SECONDS = 3.0
#: What a hypervisor's power button does, as systemd has it: systemd(1), SIGRTMIN+4.
_POWER_BUTTON = 34 + 4


class Machine:
    """A computer: a disk, a card on the network, and systemd.

    Parameters
    ----------
    folder
        Where it keeps its files.
    number, address
        Its card's.
    files
        Text by path, on its disk from the start.
    firewall
        Its first one; see `let`.
    disk
        The size of its disk, as mount takes it; empty: no limit.
    image
        What is laid over the system before its own files: the disk of a machine that is off.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        address: str,
        *,
        files: Mapping[str, str],
        firewall: str,
        disk: str = "",
        image: Path | None = None,
    ) -> None:
        self.folder, self.address = folder, address
        for name, text in files.items():
            path = folder / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755 if "bin/" in name else 0o644)
        self.name = "ip-" + address.replace(".", "-")
        # Of this start alone: another run's machine may have the same address.
        self._group = f"terradask-{os.getpid()}-{number}"
        # Of its last start: the script would read it while it is written anew, and end.
        (folder / "network").unlink(missing_ok=True)
        #: Of `time.time`.
        self.started_at = time.time()
        with (folder / "machine.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    _SCRIPT,
                    SYSTEM if image is None else f"{image}:{SYSTEM}",
                    folder,
                    self.name,
                    disk,
                    self._group,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        own, its = (Path(f"/proc/{who}/ns/net") for who in ("thread-self", self.process.pid))
        eventually(lambda: not own.samefile(its))
        self._firewall = ""
        self.let(firewall)
        connect(self.process.pid, number, address, folder)

    @property
    def is_off(self) -> bool:
        """Whether it has no power any more."""
        return self.process.poll() is not None

    def let(self, firewall: str) -> None:
        """Let packets pass by a firewall from now on."""
        if firewall != self._firewall and not self.is_off:
            try:
                put(firewall, self.process.pid)
            except subprocess.CalledProcessError:
                # It may be powering off meanwhile: its network goes first.
                eventually(lambda: self.is_off)
            self._firewall = firewall

    def press_power_button(self) -> None:
        """Ask it to power off."""
        for child in _children(self.process.pid):
            os.kill(child, _POWER_BUTTON)

    def pull_the_plug(self) -> None:
        """End it at once, if it isn't off, and remove what it leaves outside its folder."""
        self.process.kill()
        self.process.wait()
        for root in _CONTROL_GROUPS:
            for group, _, _ in os.walk(Path(root, self._group), topdown=False):
                # Its last processes may be leaving yet.
                eventually(lambda group=group: _removed(Path(group)))

    def read(self, path: str) -> str:
        """Return a file of its disk as it was left, or nothing."""
        found = self.folder / "disk/upper" / path
        return found.read_text(errors="replace") if found.exists() else ""

    def console(self) -> str:
        """Return its log so far."""
        return (self.folder / "machine.log").read_text(errors="replace") + (
            self.folder / "console.log"
        ).read_text(errors="replace")


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@dataclass(frozen=True)
class Special:
    """What a machine has that others have not.

    Parameters
    ----------
    files, disk
        See `Machine`.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    disk: str = ""


class Power:
    """Boots each instance that there is, presses the power button of one that is to end, and ends
    the instance of a machine that has powered off.
    """

    def __init__(self, ec2: Any, folder: Path, *, files: Mapping[str, str]) -> None:
        self._ec2, self._folder = ec2, folder
        #: What every machine's disk has from the start.
        self.files = dict(files)
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="power")
        #: What machines of instances have besides, by the value of the tag ``Name``.
        self.special: dict[str, Special] = {}
        #: By instance.
        self.machines: dict[str, Machine] = {}
        self._others = ""

    def __enter__(self) -> Power:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and each machine with it."""
        self._ended.set()
        self._thread.join()
        for machine in self.machines.values():
            machine.pull_the_plug()

    def _run(self) -> None:
        pressed: set[str] = set()
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                self._look(pressed)
            except Exception:  # noqa: BLE001 - without this thread, tests wait for nothing
                traceback.print_exc()

    def _look(self, pressed: set[str]) -> None:
        """Bring the machines to the state of their instances."""
        instances = self._instances()
        firewall = Firewall(self._ec2)
        if self._others != firewall.of_others():
            put(firewall.of_others())
            self._others = firewall.of_others()
        for instance in instances:
            key, state = instance["InstanceId"], instance["State"]["Name"]
            machine = self.machines.get(key)
            rules = firewall.of_machine(instance.get("PrivateIpAddress", ""))
            if machine is not None and rules:
                machine.let(rules)
            if machine is not None and machine.is_off and key in pressed:
                if state in ("pending", "running") and rules:
                    # It was stopped, and is started again from its disk.
                    machine.pull_the_plug()
                    self.machines[key] = self._boot(instance, rules)
                    pressed.remove(key)
            elif machine is None and state in ("pending", "running") and rules:
                self.machines[key] = self._boot(instance, rules)
            elif machine is not None and machine.is_off and state == "running":
                self._end(key)
            elif machine is not None and state not in ("pending", "running"):
                if key not in pressed and not machine.is_off:
                    machine.press_power_button()
                pressed.add(key)

    def _end(self, instance_id: str) -> None:
        """Do what the instance is configured for when its machine powers off."""
        machine = self.machines[instance_id]
        if time.time() - machine.started_at < _BRIEF_SECONDS:
            print(f"{instance_id} was off at once:\n{machine.console()[-2000:]}", file=sys.stderr)
        attribute = "instanceInitiatedShutdownBehavior"
        found = self._ec2.describe_instance_attribute(InstanceId=instance_id, Attribute=attribute)
        if found["InstanceInitiatedShutdownBehavior"]["Value"] == "stop":
            self._ec2.stop_instances(InstanceIds=[instance_id])
        else:
            self._ec2.terminate_instances(InstanceIds=[instance_id])

    def _image(self, image_id: str) -> Path | None:
        """Return the disk of the machine that an image was made of, or None for another image."""
        (image,) = self._ec2.describe_images(ImageIds=[image_id])["Images"]
        source = self.machines.get(image.get("SourceInstanceId", ""))
        return None if source is None else source.folder / "disk/upper"

    def _instances(self) -> list[dict[str, Any]]:
        answer = self._ec2.describe_instances()
        return [each for found in answer["Reservations"] for each in found["Instances"]]

    def _boot(self, instance: Mapping[str, Any], firewall: str) -> Machine:
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        special = self.special.get(tags.get("Name", ""), Special())
        folder = self._folder / instance["InstanceId"]
        folder.mkdir(exist_ok=True)
        return Machine(
            folder,
            next(self._numbers),
            instance["PrivateIpAddress"],
            files={**self.files, **special.files},
            firewall=firewall,
            disk=special.disk,
            image=self._image(instance["ImageId"]),
        )
