"""``python -m terradask_host.units FOLDER HOST_JSON [VOLATILE]``: writes the systemd units that run
Dask in a container image, with the limits of the host program's own unit, and what systemd needs of
a host that AWS prepares and stops. Run by root at the host's first boot.

See systemd.exec(5) for `RootDirectory` and the others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from terradask_host.config import Paths, parse_document
from terradask_host.mount_list import HostMount, mounts_of
from terradask_host.root_programs import HOST_UNIT, start_with_host

SOCKET, SERVICE = "terradask-container.socket", "terradask-container@.service"

#: Settings of the host program's unit that a container replaces or omits.
_NOT_TAKEN = (
    "Type=",
    "Exec",
    "Restart",
    "KillMode",
    "TimeoutStopSec",
    "RuntimeDirectory",
    "StateDirectory",
    "ReadWritePaths",
    "ProtectSystem",
    "ProtectHome",
    "RemoveIPC",
)


def container_socket(paths: Paths) -> str:
    """Return the socket's unit: only the host program's user can connect."""
    return f"""\
[Unit]
Description=terradask: starts of containers

[Socket]
ListenStream={paths.container_socket}
SocketUser=root
SocketGroup=terradask
SocketMode=0660
Accept=yes
MaxConnections=8

[Install]
WantedBy=sockets.target
"""


def container_service(host_unit: str, paths: Paths, mounts: Sequence[HostMount] = ()) -> str:
    """Return the unit of one container: the image's files, the host program's user and limits.

    From the host it has the host program, read only, the folders for keys and spilled data, and
    what is mounted for tasks.
    """
    writable = "".join(f" {mount.path}" for mount in mounts if mount.writable)
    readable = "".join(f" {mount.path}" for mount in mounts if not mount.writable)
    limits = "\n".join(
        line
        for line in host_unit.partition("[Service]")[2].partition("[Install]")[0].splitlines()
        if line and not line.startswith(("#", *_NOT_TAKEN))
    )
    return f"""\
[Unit]
Description=terradask: Dask in a container
BindsTo={HOST_UNIT}
# At the machine's end, the host program closes Dask in order first: stopping goes the other way.
Before={HOST_UNIT}
CollectMode=inactive-or-failed

[Service]
Type=exec
ExecStart=/bin/sh -s
StandardInput=socket
StandardOutput=socket
StandardError=inherit
KillMode=control-group
KillSignal=SIGKILL
TimeoutStopSec=10
RootDirectory={paths.container / "root"}
MountAPIVFS=yes
BindPaths={paths.state} {paths.keys}{writable}
BindReadOnlyPaths={paths.programs} -/etc/resolv.conf -/etc/hosts{readable}
{limits}
"""


# ---- hosts that AWS prepares and stops -----------------------------------------------------------


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
ExecStart=/bin/bash {Path(sys.executable).parents[2] / "boot.sh"} let_stop
"""


def write_prepared(folder: Path, volatile: Path) -> None:
    """Have the host program's unit prepare local disks at each boot from the next on; and in this
    boot, when it has failed three times, not power off the machine but let AWS stop it.

    `volatile` is the folder of units in memory.
    """
    start_with_host(folder, DISKS_UNIT, _DISKS)
    drop_in = volatile / f"{HOST_UNIT}.d"
    drop_in.mkdir(parents=True, exist_ok=True)
    (drop_in / "prepared.conf").write_text(_NO_END)
    (volatile / UNPREPARED_UNIT).write_text(_UNPREPARED)


def main(folder: Path, host_json: Path, volatile: Path | None = None) -> None:
    """Write the units beside the host program's; with `volatile`, also those of a prepared host."""
    paths = Paths(Path("/"))
    (folder / SOCKET).write_text(container_socket(paths))
    mounts = mounts_of(parse_document(host_json.read_bytes(), str(host_json)))
    host_unit = (folder / HOST_UNIT).read_text()
    (folder / SERVICE).write_text(container_service(host_unit, paths, mounts))
    if volatile is not None:
        write_prepared(folder, volatile)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
