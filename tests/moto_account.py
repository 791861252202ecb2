"""An AWS account on moto, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto import mock_aws
from moto.ec2.models import ec2_backends


@contextmanager
def moto_account(*, images: bool = False) -> Iterator[None]:
    """Answer as an account with nothing in it, and with AWS's images only where they are asked for:
    making a thousand takes longer than most tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", str(images).lower())
        # moto's reset makes an EC2 anew for other services' sake, which the next test then finds.
        ec2_backends.clear()
        with mock_aws():
            yield
