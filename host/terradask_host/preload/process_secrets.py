"""Private environment variables and credentials of one process: the scheduler's, a worker's, and of what those start."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

from terradask_host.preload.credentials_endpoint import CredentialsEndpoint

#: The operation of a scheduler that returns all that its clients have sent.
FETCH_OPERATION = "terradask_confided"


def take(environ: Mapping[str, str], credentials: Mapping[str, str] | None) -> None:
    """Let this process have private variables, and credentials as `CredentialsEndpoint` holds them.

    Variables are set at run time: what a process was started with is there for others to read, in ``/proc``. What it starts inherits them.
    """
    os.environ.update(environ)
    if credentials is not None:
        endpoint = own_endpoint()
        endpoint.hold(credentials)
        os.environ.update(endpoint.variables)


@functools.cache
def own_endpoint() -> CredentialsEndpoint:
    """Return this process's endpoint, opened when it is first needed; workers without a nanny share one."""
    return CredentialsEndpoint()
