"""The embedded AWS's daemons, forked.

A daemon is the same code as ever, with the same arguments, environment and folder; that it also
starts from nothing is what `simulator/tests/running/test_lifecycle.py` tests.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from .forking import Forked, ForkServer, fork
from .shape_report import newest_models

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
    from terradask_simulator.aws.fidelity import instance_types
    from terradask_simulator.aws.iam import reference
    from terradask_simulator.aws.iam.operation import Operation
    from terradask_simulator.aws.shapes.models import models_in, operation_of

    assert werkzeug_app
    assert daemon
    for service in _SERVICES:
        name = service.replace("-", "")
        import_module(f"moto.{name}.responses")
        import_module(f"moto.{name}.urls")
        models = models_in(str(newest_models() or "")).of(service)
        for model in (get_service_model(service), *models):
            operation_of(model, Operation(service, "", "rest", {}, "", ""))
    for service in _SERVICES:
        AccountSpecificBackend.get_session().get_available_regions(service)
    reference.is_known("ec2:RunInstances")
    instance_types.WRITTEN.update(_written_types())


def _written_types() -> dict[str, Any]:
    """Return the pages of a region's types as daemons send them, from a process of its own, whose
    account no daemon has.
    """
    import boto3
    from moto import mock_aws

    from terradask_simulator.aws.fidelity import install_all, instance_types

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            install_all(public_cidr="10.0.0.0/8")
            os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
            with mock_aws(), os.fdopen(writing, "wb") as out:
                ec2 = boto3.client("ec2", "us-east-1")
                for _ in ec2.get_paginator("describe_instance_types").paginate():
                    pass
                pickle.dump(instance_types.WRITTEN, out)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        written: dict[str, Any] = pickle.load(said)
    os.waitpid(child, 0)
    return written


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
