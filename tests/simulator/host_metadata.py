"""Where a host's metadata service answers, as only the host itself gets to know."""

from __future__ import annotations

import psutil

from terradask_simulator import HostInfo


def metadata_of(host: HostInfo) -> str:
    """Return the endpoint in the environment of a host's process."""
    environ: dict[str, str] = psutil.Process(host.pid).environ()
    return environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
