"""``python -m terradask_host.prepared_units FOLDER VOLATILE``: writes what systemd needs of a host
that AWS prepares and stops. Run by root at the host's first boot.
"""

from __future__ import annotations

import sys
from pathlib import Path

from terradask_host.container_units import HOST_UNIT

DISKS_UNIT = "terradask-disks.service"

#: AWS (documented): A stop erases an EC2 instance's instance store.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-store-lifetime.html
_DISKS = f"""\
[Unit]
Description=terradask: local disks, which are empty after a stop
Before={HOST_UNIT}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=-{sys.executable} -m terradask_host.disks
"""

#: AWS would replace a prepared instance that powers off, again and again.
_NO_END = """\
[Unit]
StartLimitAction=none
"""


def main(folder: Path, volatile: Path) -> None:
    """Have the host program's unit prepare local disks at each boot from the next on; and in this
    boot not power off the machine when it fails.

    Parameters
    ----------
    folder
        Where systemd's units lie.
    volatile
        The same in memory.
    """
    (folder / DISKS_UNIT).write_text(_DISKS)
    wants = folder / f"{HOST_UNIT}.wants"
    wants.mkdir(exist_ok=True)
    link = wants / DISKS_UNIT
    link.unlink(missing_ok=True)
    link.symlink_to(folder / DISKS_UNIT)
    drop_in = volatile / f"{HOST_UNIT}.d"
    drop_in.mkdir(parents=True, exist_ok=True)
    (drop_in / "prepared.conf").write_text(_NO_END)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
