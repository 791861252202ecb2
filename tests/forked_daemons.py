"""The embedded AWS's daemons, forked.

A daemon is the same code as ever, with the same arguments, environment and folder; that it also
starts from nothing is what `tests/simulator/test_embedded_aws_lifecycle.py` tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO

from .forking import Forked, ForkServer, fork

_SERVICES = (
    "autoscaling",
    "ec2",
    "iam",
    "logs",
    "resourcegroupstaggingapi",
    "s3",
    "secretsmanager",
    "service-quotas",
    "ssm",
    "sts",
)

#: The variable that says where hosts are forked.
_HOSTS = "TERRADASK_TESTS_HOSTS"


def spawner(
    daemons: ForkServer, hosts: ForkServer
) -> Callable[[Sequence[str], Mapping[str, str], IO[bytes]], Forked]:
    """Return what stands in for `terradask_simulator.process.spawn`."""

    def spawn(arguments: Sequence[str], environ: Mapping[str, str], log: IO[bytes]) -> Forked:
        out, its_out = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            daemon = fork(
                daemons.address,
                arguments,
                environ={**environ, _HOSTS: hosts.address},
                folder=Path.cwd(),
                files={0: nothing, 1: its_out, 2: log.fileno()},
            )
        finally:
            os.close(its_out)
            os.close(nothing)
        daemon.stdout = os.fdopen(out, "rb")
        return daemon

    return spawn


def preload() -> None:
    """Import what a daemon needs."""
    from terradask_simulator.aws.embedded import MOTO_SETTINGS

    os.environ.update(MOTO_SETTINGS)
    from moto.core.base_backend import AccountSpecificBackend
    from moto.core.utils import get_service_model
    from moto.moto_server import werkzeug_app

    from terradask_simulator import daemon
    from terradask_simulator.aws.iam import reference

    assert werkzeug_app
    assert daemon
    for service in _SERVICES:
        name = service.replace("-", "")
        import_module(f"moto.{name}.responses")
        import_module(f"moto.{name}.urls")
        get_service_model(service)
    AccountSpecificBackend.get_session().get_available_regions("ec2")
    reference.is_known("ec2:RunInstances")


def run(arguments: list[str]) -> int:
    """Be a daemon."""
    from moto.moto_api._internal import mock_random

    from terradask_simulator import daemon
    from terradask_simulator.hosts import machine
    from terradask_simulator.hosts.simulated_workers import child_process

    from .forked_hosts import spawn_program, spawn_workers

    mock_random.seed()
    hosts = os.environ.pop(_HOSTS)
    if sys.platform == "linux":
        machine.spawn = lambda *given: spawn_program(hosts, *given)  # type: ignore[assignment]
        child_process.spawn = lambda *given: spawn_workers(  # type: ignore[assignment]
            hosts, *given
        )
    if "--parent" in arguments:
        arguments[arguments.index("--parent") + 1] = str(os.getppid())
    return daemon.main(arguments)
