"""``python -m terradask_host.container_units FOLDER HOST_JSON``: writes the systemd units that run
Dask in a container image, with the limits of the host program's own unit. Run by root at the
host's boot.

See systemd.exec(5) for `RootDirectory` and the others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from terradask_host.config import Paths, parse_document
from terradask_host.mount_list import HostMount, mounts_of

HOST_UNIT = "terradask-host.service"
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


def main(folder: Path, host_json: Path) -> None:
    """Write both units beside the host program's."""
    paths = Paths(Path("/"))
    (folder / SOCKET).write_text(container_socket(paths))
    mounts = mounts_of(parse_document(host_json.read_bytes(), str(host_json)))
    host_unit = (folder / HOST_UNIT).read_text()
    (folder / SERVICE).write_text(container_service(host_unit, paths, mounts))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
