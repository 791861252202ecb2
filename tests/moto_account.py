"""An AWS account on moto, in this process: one at a time, since moto's state is the process's."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from moto import mock_aws
from moto.core.base_backend import BackendDict
from moto.core.botocore_stubber import BotocoreStubber
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

from terradask_simulator.aws.fidelity import images as image_fidelity
from terradask_simulator.aws.fidelity import lookups


@contextmanager
def _fresh() -> Iterator[None]:
    """Leave nothing to a later account, and find nothing of an earlier one.

    moto's reset makes an EC2 anew for other services' sake, which it then resets no more.
    """
    ec2_backends.clear()
    try:
        yield
    finally:
        ec2_backends.clear()


@contextmanager
def _one_at_a_time(answering: type, method: str) -> Iterator[None]:
    """Have moto answer one call after the other.

    Its state isn't made for threads: a put closes the buffer that a get of the key still reads.
    """
    # As a patch: simulator/upstream/release/s3-content-in-use.patch
    lock, answer = threading.RLock(), getattr(answering, method)

    def in_turn(*arguments: Any) -> Any:
        with lock:
            return answer(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, method, in_turn)
        yield


@contextmanager
def moto_account(*, images: bool = False) -> Iterator[None]:
    """Answer as an account with nothing in it, and with AWS's images only where they are asked for:
    making a thousand takes longer than most tests.
    """
    image_fidelity.install()
    lookups.install()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", str(images).lower())
        with _fresh(), _one_at_a_time(BotocoreStubber, "process_request"), mock_aws():
            yield


@contextmanager
def moto_server() -> Iterator[str]:
    """Answer at an endpoint of this machine, as an account with AWS's images alone."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        with _fresh(), _one_at_a_time(DomainDispatcherApplication, "__call__"):
            BackendDict.reset()
            yield f"http://{host}:{port}"
    finally:
        server.stop()
