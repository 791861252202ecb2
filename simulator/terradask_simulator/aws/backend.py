"""The state that all parts of the daemon share: moto's backends, one lock, one bell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["ACCOUNT", "BELL", "STATE_LOCK", "autoscaling_backends", "ec2_backends", "now_text"]

#: The one account, to which everything on the embedded AWS belongs.
ACCOUNT = "123456789012"

#: Guards moto's backends, which are plain dictionaries. Requests are pure Python, so that running
#: them side by side would gain nothing; running them one by one makes conditional writes and group
#: arithmetic atomic, as on AWS.
STATE_LOCK = threading.RLock()

#: Rung when a group's numbers or an instance's state changed, so that the reconcile loop need not
#: wait its turn.
BELL = threading.Event()


def ec2_backends() -> Iterator[Any]:
    """Yield the EC2 backends of regions that were used."""
    from moto.ec2.models import ec2_backends as backends

    yield from list(backends[ACCOUNT].values())


def autoscaling_backends() -> Iterator[Any]:
    """Yield the Auto Scaling backends of regions that were used."""
    from moto.autoscaling.models import autoscaling_backends as backends

    yield from list(backends[ACCOUNT].values())


def now_text() -> str:
    """Return the time as AWS writes it into texts."""
    from moto.core.utils import utcnow

    return f"{utcnow():%Y-%m-%dT%H:%M:%SZ}"
