"""Tags this host's own volumes and network interfaces.

A group's tags reach instances only, and a launch template that clusters share has none of them. So
a host copies its instance's tags to the instance's parts, once: its role can't do so again.

AWS (documented, asg-tags): Auto Scaling propagates a group's tags to instances, but not to their
volumes. https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

from terradask_host.agent.aws import Aws, is_aws_error
from terradask_host.agent.retry import backoff
from terradask_host.errors import MetadataUnavailable
from terradask_host.metadata import InstanceMetadata, interface_facts

#: Below the root: Linux's NVMe controllers.
#: AWS (documented, nvme-serial): On Nitro instances the serial number of a volume's NVMe device is
#: the volume's id without its dash, and its model is "Amazon Elastic Block Store".
#: https://docs.aws.amazon.com/ebs/latest/userguide/identify-nvme-ebs-device.html
CONTROLLERS = Path("sys") / "class" / "nvme"
_MODEL = "Amazon Elastic Block Store"
_SERIAL = re.compile(r"vol-?([0-9a-f]{8,17})")

#: The last tries are a minute apart. AWS (iam-eventual)
TRIES = 8

#: The template's own name stays: sweeps identify hosts' parts by it.
_KEPT = "Name"


class OwnTags:
    """Tags this host's volumes and interfaces on a thread, so that the boot never waits.

    Failures are logged and reported. `metadata` is used only by the thread; `done` is the file that
    holds the instance's id once its parts are tagged; `report` receives the last failure.

    Permissions needed: ``ec2:CreateTags`` on volumes and network interfaces that have the
    workspace's tag and no ``terradask:group``.
    """

    def __init__(
        self,
        aws: Aws,
        metadata: InstanceMetadata,
        instance_id: str,
        root: Path,
        done: Path,
        *,
        log: Callable[[str], None],
        report: Callable[[str], None],
        first_pause_seconds: float = 2.0,
    ) -> None:
        self._aws = aws
        self._metadata = metadata
        self._instance_id = instance_id
        self._root = root
        self._done = done
        self._log = log
        self._report = report
        self._first_pause_seconds = first_pause_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="own tags", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop trying."""
        self._closing.set()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the thread, within the timeout."""
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        trouble = ""
        pauses = backoff(self._first_pause_seconds, ceiling_seconds=60.0)
        for attempt, pause in zip(range(1, TRIES + 1), pauses, strict=False):
            try:
                self._tag()
                return
            except (MetadataUnavailable, OSError) as error:
                trouble = str(error)
            except Exception as error:  # noqa: BLE001 - it must not end the host
                trouble = str(error) if is_aws_error(error) else repr(error)
            self._log(f"this host's disks and interfaces can't be tagged, try {attempt}: {trouble}")
            if attempt < TRIES and self._closing.wait(pause):
                return
        self._report(f"its disks and interfaces lack the cluster's tags: {trouble}")

    def _tag(self) -> None:
        if self._done.exists() and self._done.read_text() == self._instance_id:
            return
        tags = instance_tags(self._metadata)
        volumes = volume_ids(self._root / CONTROLLERS)
        if not volumes:
            self._log("this machine has no list of its volumes' ids: they keep the template's tags")
        parts = [*volumes, *interface_facts(self._metadata, "interface-id")]
        self._aws.client("ec2").create_tags(
            Resources=parts,
            Tags=[{"Key": key, "Value": value} for key, value in sorted(tags.items())],
        )
        self._done.parent.mkdir(parents=True, exist_ok=True)
        self._done.write_text(self._instance_id)
        self._log(f"tagged {', '.join(parts)} like the instance")


def instance_tags(metadata: InstanceMetadata) -> dict[str, str]:
    """Return the instance's tags for its parts: all but AWS's own and the name."""
    keys = (metadata.get("meta-data/tags/instance") or "").split("\n")
    return {
        key: metadata.get(f"meta-data/tags/instance/{key}") or ""
        for key in keys
        if key and key != _KEPT and not key.lower().startswith("aws:")
    }


def volume_ids(controllers: Path) -> list[str]:
    """Return the instance's EBS volumes; none before Nitro, where disks aren't NVMe."""
    found = []
    for controller in sorted(controllers.iterdir()) if controllers.is_dir() else ():
        model, serial = (
            (controller / name).read_text().strip() if (controller / name).is_file() else ""
            for name in ("model", "serial")
        )
        match = _SERIAL.fullmatch(serial)
        if model == _MODEL and match:
            found.append(f"vol-{match[1]}")
    return found
