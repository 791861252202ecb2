"""Check that terradask's host program, which machines boot, is installed."""

from __future__ import annotations

from importlib.util import find_spec

from terradask_simulator.hosts.cloud_config import BootFailed

__all__ = ["check_installed"]


def check_installed() -> None:
    """Refuse to boot a machine where terradask is not installed.

    Raises
    ------
    BootFailed
        It isn't installed: the simulator is a separate distribution, which serves AWS without it.
    """
    if find_spec("terradask_host") is None:
        raise BootFailed(
            "The instance boots terradask's host program, and terradask is not installed",
            advice="pip install terradask, into the environment of the embedded AWS",
        )
