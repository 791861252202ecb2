"""Where a host's metadata service answers, as only the host itself gets to know."""

from __future__ import annotations

import psutil
from tests.waiting import eventually

from terradask_simulator import HostInfo


def metadata_of(host: HostInfo) -> str:
    """Return the endpoint in the environment of a host's process."""
    process = psutil.Process(host.pid)
    # A process that was just forked shows that of the one which it comes from.
    return str(eventually(lambda: process.environ().get("AWS_EC2_METADATA_SERVICE_ENDPOINT")))
