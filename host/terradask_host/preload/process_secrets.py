"""Private environment variables and credentials of one process, a scheduler or a worker, and its
children.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

from terradask_host.preload.credentials_endpoint import CredentialsEndpoint

#: The scheduler's operation that returns all secrets that its clients have sent.
FETCH_OPERATION = "terradask_confided"


def take(environ: Mapping[str, str], credentials: Mapping[str, str] | None) -> None:
    """Set private variables in this process, and credentials in its `CredentialsEndpoint`.

    Variables are set at run time: those at a process's start are readable by others, in ``/proc``.
    Its children inherit them.
    """
    os.environ.update(environ)
    if credentials is not None:
        endpoint = own_endpoint()
        endpoint.hold(credentials)
        os.environ.update(endpoint.variables)


@functools.cache
def own_endpoint() -> CredentialsEndpoint:
    """Return this process's endpoint, opened at first use; workers without a nanny share one."""
    return CredentialsEndpoint()
