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

UNPREPARED_UNIT = "terradask-unprepared.service"

#: AWS would replace a prepared instance that powers off, again and again.
_NO_END = f"""\
[Unit]
StartLimitAction=none
OnFailure={UNPREPARED_UNIT}
"""

_UNPREPARED = f"""\
[Unit]
Description=terradask: has AWS stop a host that can't be prepared

[Service]
Type=oneshot
ExecStart={sys.executable} -m terradask_host.agent.launch_hook
"""


def main(folder: Path, volatile: Path) -> None:
    """Have the host program's unit prepare local disks at each boot from the next on; and in this
    boot, when it has failed three times, not power off the machine but let AWS stop it.

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
    (volatile / UNPREPARED_UNIT).write_text(_UNPREPARED)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
