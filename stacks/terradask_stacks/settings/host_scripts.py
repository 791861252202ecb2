"""A network's settings for scripts that its hosts run as root."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from terradask_stacks.settings.base import Section

#: Systemd waits as long for a host that leaves.
#: AWS (believed): EC2 gives an instance that it terminates at least 90 seconds to
#: shut down.
_MOST_LEAVE_SECONDS = 60
#: Clusters replace a host that hasn't joined within 15 minutes.
_MOST_SETUP_SECONDS = 600

_Script = Annotated[str, Field(min_length=1)]


class HostScriptSettings(Section):
    """A network's settings for scripts of hosts."""

    host_setup: _Script | None = Field(
        default=None,
        description="A script, relative to terradask.toml, that each host runs as root before "
        "Dask, of at most 64 KiB. A host on which it fails is `failed`, and is replaced.",
    )
    host_setup_timeout_seconds: int = Field(
        default=300,
        ge=1,
        le=_MOST_SETUP_SECONDS,
        description="Seconds after which host_setup is killed, and the host is `failed`.",
    )
    host_leave: _Script | None = Field(
        default=None,
        description="A script that each host runs as root when it goes off, after Dask. Its "
        "failure is noted in the host's log.",
    )
    host_leave_timeout_seconds: int = Field(
        default=30,
        ge=1,
        le=_MOST_LEAVE_SECONDS,
        description="Seconds after which host_leave is killed.",
    )
