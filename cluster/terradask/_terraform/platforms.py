"""The platforms that terradask runs Terraform on."""

from __future__ import annotations

import sys

from terradask.errors import SetupError

#: For `terradask doctor`, on Windows.
WITHOUT_TERRAFORM = (
    "attach, compute, start, stop, scale and jobs; no plan, apply and destroy, which need WSL"
)


def check_platform() -> None:
    """Check that Terraform can be run here. Raises `SetupError`."""
    if sys.platform == "win32":
        raise refused()


def refused() -> SetupError:
    """Return the error of a command that needs Terraform, on Windows: nothing there keeps a folder
    locked for a Terraform that outlives its caller, or ends all of its processes.
    """
    return SetupError(
        "terradask doesn't run Terraform on Windows",
        allowed="Linux, macOS, or the Windows Subsystem for Linux (WSL)",
        advice="run this command in WSL, with the same settings and AWS account; clusters deployed "
        "there can be started, used, scaled and stopped from Windows too",
    )
