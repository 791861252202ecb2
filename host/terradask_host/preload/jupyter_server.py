"""The notebook server on a scheduler's host, in a process of its own: it runs the code of those who
may reach it, and is reached through the scheduler's forwards alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from terradask_host.http_proxy.jupyter_site import BASE_PATH, jupyter_site
from terradask_host.http_proxy.pipes import Streams
from terradask_host.http_proxy.server import Site
from terradask_host.preload.leave import Leave, Report

#: Dask's clients in kernels have this in their names: they count as clients while their kernel is
#: open.
CLIENT_NAME = "notebook"

#: From the start of a scheduler to a notebook server that listens.
_START_SECONDS = 30.0
_LOOK_SECONDS = 1.0


def own_jupyter_site(socket: str) -> Site:
    """Return the site of the notebook server on this host, with a new token for browsers."""
    # Under any name: a load balancer's, or that of a DNS record, is unknown here.
    return jupyter_site(partial(_connect, socket), secure=True, hosts=None)


async def _connect(socket: str) -> Streams:
    """Connect to the notebook server, which may still be starting. Raises ``OSError``."""
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    while True:
        try:
            return await asyncio.open_unix_connection(_short(socket))
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.2)


async def serve_jupyter(
    report: Report, start: dict[str, Any], running: Callable[[], None], leave: Leave
) -> str | None:
    """Run the notebook server until the host program's request, and report how many kernels are
    open.
    """
    import dask.config

    runtime = Path(start["runtime"])
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    runtime.chmod(0o700)
    notebooks = Path(start["notebooks"])
    notebooks.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["JUPYTER_RUNTIME_DIR"] = str(runtime)
    # `Client()` in a kernel is one of this cluster: it finds address and key files in Dask's
    # configuration.
    with dask.config.set({"scheduler-address": start["scheduler"], "client-name": CLIENT_NAME}):
        os.environ["DASK_INTERNAL_INHERIT_CONFIG"] = dask.config.serialize(dask.config.config)
    server = _started(start, notebooks)
    await server.extension_manager.start_all_extensions()
    running()
    reporting = asyncio.create_task(_report_open(server, report))
    try:
        await leave.wait()
    finally:
        reporting.cancel()
        await server.cleanup_extensions()
        await server.cleanup_kernels()
        server.http_server.stop()
    return "host-leaves"


def open_kernels(kernels: Iterable[Mapping[str, Any]]) -> int:
    """Return how many kernels run a cell or have a page connected, of what Jupyter says of them."""
    return sum(
        kernel.get("execution_state") == "busy" or kernel.get("connections", 0) > 0
        for kernel in kernels
    )


def _started(start: Mapping[str, Any], notebooks: Path) -> Any:
    """Return a server that is about to listen. Raises `RuntimeError` if there is none to be had."""
    try:
        from jupyterlab.labapp import LabApp
        from traitlets.config import Config
    except ImportError as error:
        raise RuntimeError(
            f"this environment has no JupyterLab ({error}): install jupyterlab where the cluster "
            "is started, or name it in the cluster's software; a container image has to have it"
        ) from error
    if os.geteuid() == 0 and not start["allow_root"]:
        raise RuntimeError("a notebook server doesn't run as root")
    socket = Path(start["socket"])
    socket.unlink(missing_ok=True)
    return LabApp.initialize_server(
        argv=[],
        config=Config(
            {
                "ServerApp": {
                    "base_url": BASE_PATH,
                    "root_dir": str(notebooks),
                    "sock": _short(str(socket)),
                    "sock_mode": "0600",
                    "open_browser": False,
                    "quit_button": False,
                    # The forwards have checked it; the server sees each by its own name.
                    "allow_remote_access": True,
                    "allow_root": bool(start["allow_root"]),
                },
                # Its socket opens for its own user, behind forwards that ask for a certificate, or
                # a token.
                "IdentityProvider": {"token": ""},
                # It asks nothing of sites of others.
                "LabApp": {
                    "news_url": None,
                    "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
                    "extension_manager": "readonly",
                },
            }
        ),
    )


async def _report_open(server: Any, report: Report) -> None:
    said = 0
    while True:
        found = open_kernels(server.kernel_manager.list_kernels())
        if found != said:
            report("kernels", open=found)
            said = found
        await asyncio.sleep(_LOOK_SECONDS)


def _short(socket: str) -> str:
    """Return a path of at most 107 bytes, all that an address of a socket can have."""
    return min(socket, os.path.relpath(socket), key=len)
