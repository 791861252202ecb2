"""Make Dask's scratch space of the instance's local disks. Run once by ``boot.sh``, as root:
``python -m terradask_host.disks``.

AWS (documented): An EC2 instance store's data ends with the instance, and on NVMe volumes it is
encrypted by the hardware.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ssd-instance-store.html
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from terradask_host.config import Paths
from terradask_host.root_programs import INSTALL, OWNER, print_line, run_command

#: AWS (recorded): The model of an NVMe instance store on EC2 is "Amazon EC2 NVMe Instance Storage".
#: https://github.com/awslabs/amazon-eks-ami/blob/main/templates/shared/runtime/bin/setup-local-disks
MODEL = "Amazon EC2 NVMe Instance Storage"

#: Several disks become one, striped: their data needn't outlive any of them.
ARRAY = "/dev/md/terradask"

#: Name of the file system, by which fstab finds it again after a reboot.
LABEL = "terradask"

LIST = ("lsblk", "--json", "--bytes", "--output", "PATH,TYPE,MODEL,SIZE,FSTYPE,PTTYPE,MOUNTPOINTS")

Run = Callable[[Sequence[str]], str]


def unused_disks(listing: Mapping[str, Any]) -> list[str]:
    """Return the paths of the instance store's unused disks, the largest first.

    A disk with partitions, a file system, a mount or a holder belongs to the image's own set-up,
    and is never touched.
    """
    free = [
        disk for disk in listing.get("blockdevices", ()) if _is_local(disk) and not _is_used(disk)
    ]
    return [
        disk["path"] for disk in sorted(free, key=lambda disk: (-int(disk["size"]), disk["path"]))
    ]


def _is_local(device: Mapping[str, Any]) -> bool:
    # udev writes some of its names with underscores.
    return (
        device.get("type") == "disk"
        and (device.get("model") or "").replace("_", " ").strip() == MODEL
    )


def _is_used(device: Mapping[str, Any]) -> bool:
    return bool(
        device.get("fstype")
        or device.get("pttype")
        or device.get("children")
        or any(device.get("mountpoints") or ())
    )


def mount_commands(device: str, scratch: Path) -> list[list[str]]:
    """Return the commands that format a device, mount it, and set the owner.

    The device's content is lost.
    """
    folders = str(scratch.parent), str(scratch)
    return [
        # -K: without discarding the whole device first.
        ["mkfs.xfs", "-q", "-f", "-K", "-L", LABEL, device],
        ["install", "-d", "-m", "0700", "-o", OWNER, "-g", OWNER, *folders],
        ["mount", "-o", "noatime", device, str(scratch)],
        ["chown", f"{OWNER}:{OWNER}", str(scratch)],
        ["chmod", "0700", str(scratch)],
    ]


def prepare_scratch(paths: Paths, *, run: Run, log: Callable[[str], None]) -> bool:
    """Mount the instance's local disks, if it has any, where Dask spills.

    Return whether scratch space is on local disks; otherwise Dask spills to the instance's
    volume.
    """
    disks = unused_disks(json.loads(run(LIST)))
    if not disks:
        log("no local disks: scratch space lies on the volume")
        return False
    device = disks[0] if len(disks) == 1 else _stripe(disks, run=run, log=log)
    for command in mount_commands(device, paths.scratch):
        run(command)
    # A prepared host's are new after each stop: systemd would mount them while they are formatted.
    if not paths.prepared.exists():
        with (paths.root / "etc" / "fstab").open("a") as lines:
            lines.write(f"LABEL={LABEL} {paths.scratch} xfs defaults,noatime,nofail 0 2\n")
    log(f"scratch space lies on {device}, of {', '.join(sorted(disks))}")
    return True


def _stripe(disks: Sequence[str], *, run: Run, log: Callable[[str], None]) -> str:
    """Combine several disks to one device; on failure use the largest."""
    try:
        if shutil.which("mdadm") is None:
            run([*INSTALL, "mdadm"])
        create = ["mdadm", "--create", ARRAY, "--run", "--force", "--level=0"]
        run([*create, f"--raid-devices={len(disks)}", *sorted(disks)])
    except (OSError, subprocess.SubprocessError) as error:
        log(f"{len(disks)} local disks could not be striped, one is used: {error}")
        # A failed attempt may have left its signature on some.
        return disks[0]
    return ARRAY


def main() -> int:
    """Return 0 if scratch space is ready on any disk, 1 if local disks could not be used."""
    try:
        run = partial(run_command, stderr=None)
        prepare_scratch(Paths.of_environ(os.environ), run=run, log=print_line)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        print_line(f"local disks can't be used, scratch space lies on the volume: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
