"""Shared state of the daemon: moto's backends, one lock, and an event that wakes the reconcile
loop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

__all__ = [
    "ACCOUNT",
    "ACCOUNTS",
    "BELL",
    "STATE_LOCK",
    "TRUST",
    "account_in",
    "autoscaling_backends",
    "ec2_backends",
    "every_account",
    "now_text",
]

#: The account of the embedded AWS's owner.
ACCOUNT = "123456789012"

#: All accounts; a switch adds others.
ACCOUNTS = [ACCOUNT]

#: Lets the callers of the owner's account assume a role.
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sts:AssumeRole",
        }
    ],
}

#: Guards moto's backends, which are plain dictionaries. Requests are pure Python, so that running
#: them in parallel would gain nothing; running them one by one makes conditional writes and changes
#: of groups atomic, as on AWS.
STATE_LOCK = threading.RLock()

#: Set when a group's capacity or an instance's state changes, to wake the reconcile loop at once.
BELL = threading.Event()


def ec2_backends() -> Iterator[Any]:
    """Yield the EC2 backends of used regions."""
    from moto.ec2.models import ec2_backends as backends

    for account in ACCOUNTS:
        yield from list(backends[account].values())


def autoscaling_backends() -> Iterator[Any]:
    """Yield the Auto Scaling backends of used regions."""
    from moto.autoscaling.models import autoscaling_backends as backends

    for account in ACCOUNTS:
        yield from list(backends[account].values())


def every_account(backends: Any) -> Iterator[Any]:
    """Yield a global service's backends of every account."""
    for account in ACCOUNTS:
        yield backends[account]["aws"]


def account_in(arn: str) -> str:
    """Return the account in an ARN; the owner's for one without, such as AWS's own policies."""
    parts = arn.split(":")
    return parts[4] if len(parts) > 4 and parts[4].isdigit() else ACCOUNT


def now_text() -> str:
    """Return the time in the format of AWS's messages."""
    from moto.core.utils import utcnow

    return f"{utcnow():%Y-%m-%dT%H:%M:%SZ}"
