"""``python -m terradask_host.container_units FOLDER``: writes the units by which systemd runs Dask
in a container image, with the limits of the host program's own unit. Run by root, when the host
boots.

systemd.exec(5) has what `RootDirectory` and the others do.
"""

from __future__ import annotations

import sys
from pathlib import Path

from terradask_host.config import Paths

HOST_UNIT = "terradask-host.service"
SOCKET, SERVICE = "terradask-container.socket", "terradask-container@.service"

#: What a container has in its own way, or hasn't: its files are the image's.
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
    """Return the socket's unit: of the host's users, its program's alone may ask there."""
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


def container_service(host_unit: str, paths: Paths) -> str:
    """Return the unit of one container: the image's files, the host program's user and limits.

    Of the host it has the host program, to read, and the folders for keys and spilled data.
    """
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
BindPaths={paths.state} {paths.keys}
BindReadOnlyPaths={paths.programs} -/etc/resolv.conf -/etc/hosts
{limits}
"""


def main(folder: Path) -> None:
    """Write both units beside the host program's."""
    paths = Paths(Path("/"))
    (folder / SOCKET).write_text(container_socket(paths))
    (folder / SERVICE).write_text(container_service((folder / HOST_UNIT).read_text(), paths))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
