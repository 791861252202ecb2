"""The notebook server on a scheduler's host: runs its users' code in a process of its own, which
only the scheduler's forwards reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from terradask_host.http_proxy.jupyter_site import BASE_PATH, jupyter_site
from terradask_host.http_proxy.pipes import Streams, short, to_socket
from terradask_host.http_proxy.server import Site
from terradask_host.preload.leave import Leave, Report
from terradask_host.preload.referenced_secrets import take_again

#: Part of the names of Dask clients in kernels: they count as clients while their kernel is open.
CLIENT_NAME = "notebook"

#: Time from the scheduler's start to a listening notebook server.
_START_SECONDS = 30.0

#: Longest folder: a socket's address has at most 107 bytes, with `/kernel-<UUID>-ipc-<number>`.
_MOST_PATH_BYTES = 55
_LOOK_SECONDS = 1.0


def own_jupyter_site(socket: str) -> Site:
    """Return the site of this host's notebook server, with a new token for browsers."""
    # Any host name: a load balancer's, or that of a DNS record, is unknown here.
    return jupyter_site(partial(_connect, socket), secure=True, hosts=None)


async def _connect(socket: str) -> Streams:
    """Connect to the notebook server, which may still be starting. Raises ``OSError``."""
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    while True:
        try:
            return await to_socket(socket)()
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.2)


async def serve_jupyter(
    report: Report, start: dict[str, Any], running: Callable[[], None], leave: Leave
) -> str | None:
    """Run the notebook server until the host program's request, and report open kernels."""
    import dask.config

    runtime = Path(start["runtime"])
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    runtime.chmod(0o700)
    notebooks = Path(start["notebooks"])
    notebooks.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `Client()` in a kernel connects to this cluster: address and key files are in Dask's
    # configuration.
    with dask.config.set({"scheduler-address": start["scheduler"], "client-name": CLIENT_NAME}):
        os.environ["DASK_INTERNAL_INHERIT_CONFIG"] = dask.config.serialize(dask.config.config)
    with _by_short_path(runtime) as folder:
        os.environ["JUPYTER_RUNTIME_DIR"] = str(folder)
        server = _started(start, notebooks)
        await server.extension_manager.start_all_extensions()
        _with_current_secrets(server.kernel_manager)
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


@contextlib.contextmanager
def _by_short_path(folder: Path) -> Iterator[Path]:
    """Yield a folder by a path short enough for the names of kernels' sockets."""
    if len(str(folder)) <= _MOST_PATH_BYTES:
        yield folder
        return
    # A simulated host's own folder for such links has a long path too.
    with tempfile.TemporaryDirectory(prefix="terradask-", dir="/tmp") as other:
        link = Path(other, "jupyter")
        link.symlink_to(folder)
        yield link


def open_kernels(kernels: Iterable[Mapping[str, Any]]) -> int:
    """Return how many kernels run a cell or have a page connected, from Jupyter's list."""
    return sum(
        kernel.get("execution_state") == "busy" or kernel.get("connections", 0) > 0
        for kernel in kernels
    )


def _started(start: Mapping[str, Any], notebooks: Path) -> Any:
    """Return a server that is about to listen. Raises `RuntimeError` if it isn't available."""
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
                    "sock": short(str(socket)),
                    "sock_mode": "0600",
                    "open_browser": False,
                    "quit_button": False,
                    # The forwards have checked it; the server gets each by another name.
                    "allow_remote_access": True,
                    "allow_root": bool(start["allow_root"]),
                },
                # Only its user can open its socket, behind forwards that require a certificate or
                # a token.
                "IdentityProvider": {"token": ""},
                # A port would show each local program the output of its kernels' cells.
                "KernelManager": {"transport": "ipc"},
                # It sends no requests to other sites.
                "LabApp": {
                    "news_url": None,
                    "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
                    "extension_manager": "readonly",
                },
            }
        ),
    )


def _with_current_secrets(kernels: Any) -> None:
    """Have each new kernel get the current values of the run's secrets."""
    start = kernels.start_kernel

    async def start_kernel(*args: Any, **options: Any) -> Any:
        await asyncio.to_thread(take_again)
        return await start(*args, **options)

    kernels.start_kernel = start_kernel


async def _report_open(server: Any, report: Report) -> None:
    said = 0
    while True:
        found = open_kernels(server.kernel_manager.list_kernels())
        if found != said:
            report("kernels", open=found)
            said = found
        await asyncio.sleep(_LOOK_SECONDS)
