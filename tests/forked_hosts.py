"""Hosts' programs and their Dask processes, forked.

They run the same code as ever, the host program from the wheel that user data names, with the same
arguments, environment and folder; that they also start from nothing is what ``tests/boot`` tests,
and of Dask's what ``tests/simulator/hosts/test_host_running.py`` does.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing import popen_fork, popen_spawn_posix
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from .forking import Forked, fork

#: Services that the host program calls: their models take longer to read than boto3 to import.
_SERVICES = ("autoscaling", "ec2", "logs", "s3", "secretsmanager", "sts")

#: What a scheduler or a worker imports as it starts to serve HTTP.
_SERVED = (
    "distributed.http.proxy",
    "distributed.http.scheduler.prometheus",
    "distributed.http.worker.prometheus",
)

#: The variable that says where Dask processes are forked; the host program's own.
_HERE = "TERRADASK_TESTS_HERE"


def spawn_program(
    address: str,
    program: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    umask: int,
    log: IO[bytes],
    *,
    dask: bool = True,
) -> Forked:
    """Have a host's program forked, and with `dask` its Dask processes; stands in for
    `terradask_simulator.hosts.machine.spawn`, with a module and its arguments.
    """
    with Path(os.devnull).open("rb") as nothing:
        return fork(
            address,
            ["-m", *program],
            environ={**environ, _HERE: address if dask else ""},
            folder=folder,
            umask=umask,
            files={0: nothing.fileno(), 1: log.fileno(), 2: log.fileno()},
        )


def spawn_workers(
    address: str, arguments: Sequence[str], environ: Mapping[str, str], folder: Path, log: IO[bytes]
) -> Forked:
    """Have a process of simulated workers forked, with a pipe for its standard input; stands in for
    `terradask_simulator.hosts.simulated_workers.child_process.spawn`.
    """
    its_in, to_it = os.pipe()
    try:
        process = fork(
            address,
            arguments,
            environ={**environ, _HERE: ""},
            folder=folder,
            umask=_umask(),
            files={0: its_in, 1: log.fileno(), 2: log.fileno()},
        )
    finally:
        os.close(its_in)
    process.stdin = os.fdopen(to_it, "wb")
    return process


def _spawn_dask(
    address: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    pass_fds: Sequence[int],
    **more: Any,
) -> Forked | subprocess.Popen[bytes]:
    """Have a Dask process forked, with pipes for its standard input and output; stands in for
    `subprocess.Popen` in `terradask_host.agent.dask_process`.
    """
    if command[0] != sys.executable:
        # A broken environment's Python, for one.
        return subprocess.Popen(command, env=env, cwd=cwd, pass_fds=pass_fds, **more)
    its_in, to_it = os.pipe()
    from_it, its_out = os.pipe()
    try:
        process = fork(
            address,
            command[1:],
            environ={**env, _HERE: address},
            folder=cwd,
            umask=_umask(),
            files={0: its_in, 1: its_out, 2: its_out, **{each: each for each in pass_fds}},
        )
    finally:
        os.close(its_in)
        os.close(its_out)
    process.stdin, process.stdout = os.fdopen(to_it, "wb", 0), os.fdopen(from_it, "rb")
    return process


def _umask() -> int:
    """Return this process's; `os.umask` would change it for a moment."""
    said = re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.M)
    assert said is not None
    return int(said[1], 8)


def preload() -> None:
    """Import what hosts need; Dask's configuration is nobody's."""
    import boto3
    import botocore.session
    import distributed

    assert distributed
    for module in _SERVED:
        import_module(module)
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    for service in _SERVICES:
        boto3.client(
            service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        ).close()


def run(arguments: list[str]) -> int:
    """Be what an interpreter with these arguments is."""
    here = os.environ.pop(_HERE)
    if _configures_dask():
        # Dask reads its configuration when it is imported.
        os.execve(sys.executable, [sys.executable, *arguments], os.environ)
    # Tasks are functions of tests: another folder `tests` of the new path isn't theirs.
    package = sys.modules[__package__]
    package.__path__ = list(package.__path__)
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [each for each in added if each] + [
        each for each in sys.path if each != str(Path(__file__).parents[1])
    ]
    if "TERRADASK_SIMULATOR_NETWORK" in os.environ:
        # What Python would have imported at its start.
        import_module("terradask_security_groups").install(os.environ)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        if here:
            _fork_dask(here)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif "-c" in arguments:
        sys.argv = arguments[arguments.index("-c") :]
        exec(sys.argv.pop(1), {})
    else:
        assert arguments[0] == "-P"
        sys.argv = arguments[1:]
        _fork_workers(here)
        _initialize_logging_with_configuration()
        runpy.run_path(arguments[1], run_name="__main__")
    return 0


def _fork_dask(address: str) -> None:
    """Have the process forked that the host program starts."""
    with contextlib.suppress(ModuleNotFoundError):
        from terradask_host.agent import dask_process

        dask_process.subprocess = SimpleNamespace(  # type: ignore[assignment]
            **{**vars(subprocess), "Popen": functools.partial(_spawn_dask, address)}
        )


def _fork_workers(address: str) -> None:
    """Have the processes forked that a nanny starts through `multiprocessing`."""
    forked: dict[int, Forked] = {}

    def spawn(_: bytes, command: Sequence[str], descriptors: Sequence[int]) -> int:
        process = fork(
            address,
            [os.fsdecode(each) for each in command[1:]],
            environ={**os.environ, _HERE: address},
            folder=Path.cwd(),
            umask=_umask(),
            files={number: number for number in (0, 1, 2, *descriptors)},
        )
        forked[process.pid] = process
        return process.pid

    def poll(self: Any, flag: int = os.WNOHANG) -> int | None:
        if self.pid not in forked:
            return own_poll(self, flag)
        self.returncode = forked[self.pid].poll() if flag else forked[self.pid].wait()
        return self.returncode

    own_poll = popen_fork.Popen.poll
    popen_spawn_posix.util.spawnv_passfds = spawn
    popen_fork.Popen.poll = poll


def _initialize_logging_with_configuration() -> None:
    """Do what importing distributed does in a process that is configured before."""
    import dask.config
    from distributed.config import initialize_logging

    update = dask.config.update

    def updated(*given: Any, **options: Any) -> Any:
        whole = update(*given, **options)
        for logger in map(logging.getLogger, list(logging.root.manager.loggerDict)):
            logger.handlers.clear()
            logger.setLevel(logging.NOTSET)
            logger.propagate = True
        initialize_logging(dask.config.config)
        return whole

    dask.config.update = updated


def _configures_dask() -> bool:
    return any(name.startswith("DASK_") for name in os.environ) or any(
        (Path.home() / place).exists() for place in (".config/dask", ".dask")
    )
