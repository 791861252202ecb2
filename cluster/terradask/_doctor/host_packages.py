"""Whether hosts find their own program's packages when they boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask._doctor.finding import Finding
from terradask.errors import AccessDenied, NoBaseline

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace

_CHECK = "host-packages"


def check_host_packages(workspace: Workspace, *, fix: bool) -> Finding:
    """Look for the packages in the workspace's bucket, and with `fix` put there what is missing.

    Permissions needed: ``s3:GetObject`` on the host program, ``s3:ListBucket``; without them
    nothing is found wrong. With `fix` also ``s3:PutObject`` on ``host/*``.
    """
    try:
        missing = workspace.missing_host_packages()
    except NoBaseline:
        return Finding(_CHECK, True, "come with the network, which isn't deployed")
    except AccessDenied:
        return Finding(_CHECK, True, "can't be seen by this caller")
    if missing and fix:
        put = workspace.put_host_packages()
        return Finding(_CHECK, True, f"{len(put)} put into s3://{workspace.bucket}")
    if not missing:
        return Finding(_CHECK, True, "nothing that hosts install at boot is missing")
    found = "; ".join(f"{one}: no {', '.join(missing[one])}" for one in sorted(missing))
    return Finding(_CHECK, False, found, "terradask doctor --fix, or terradask apply network")
