"""Find AWS's ``session-manager-plugin``, check its version, and build its command line.

AWS (documented, ssm-plugin): Session Manager's plugin takes StartSession's response, the region,
the operation, the profile, StartSession's request, and the endpoint of Systems Manager; after
1.2.497.0 the response in a variable.
https://github.com/aws/aws-cli/blob/v2/awscli/customizations/sessionmanager.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from terradask.errors import SetupError
from terradask_modules.programs import find_program

NAME = "session-manager-plugin"

#: Variable with StartSession's response for the plugin: all users can read arguments.
RESPONSE_VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"

#: AWS (ssm-plugin)
_LAST_WITHOUT_VARIABLE = "1.2.497.0"

#: Where AWS's installers put it, if it isn't on PATH. AWS (documented): on Windows in
#: ``C:\Program Files\Amazon\SessionManagerPlugin\bin``, which may be missing in PATH.
#: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-troubleshooting.html
_USUAL_FOLDERS = ("/usr/local/sessionmanagerplugin/bin", "/usr/local/bin")
_ON_WINDOWS = "Amazon/SessionManagerPlugin/bin"

_VERSION = re.compile(r"\d+(\.\d+){0,3}")
_VERSION_SECONDS = 20.0
_PAGE = "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html"
_ALTERNATIVES = (
    "connect='public' with an inbound rule for your address, or connect='private' "
    "over VPN or peering"
)


@dataclass(frozen=True)
class Plugin:
    """A plugin on this machine."""

    path: str
    version: str

    def command(
        self, request: Mapping[str, Any], *, region: str, profile: str | None, endpoint_url: str
    ) -> list[str]:
        """Return the plugin's command line; `RESPONSE_VARIABLE` has StartSession's response."""
        return [
            self.path,
            RESPONSE_VARIABLE,
            region,
            "StartSession",
            profile or "",
            json.dumps(request),
            endpoint_url,
        ]


def find_plugin(environ: Mapping[str, str] | None = None) -> Plugin:
    """Find the plugin on this machine. Raises `SetupError`."""
    environ = os.environ if environ is None else environ
    programs = environ.get("PROGRAMFILES")
    usual = _USUAL_FOLDERS if programs is None else (f"{programs}/{_ON_WINDOWS}",)
    found = find_program(NAME, environ, after=usual)
    if found is None:
        raise SetupError(
            f"connect='ssm' needs AWS's {NAME}, which isn't on this machine.",
            given=f"PATH={environ.get('PATH', '')}",
            allowed=f"{NAME} newer than {_LAST_WITHOUT_VARIABLE}",
            advice=f"install it: {_PAGE}; or use another connection: {_ALTERNATIVES}",
        )
    version = _version(found)
    if version is None or Version(version) <= Version(_LAST_WITHOUT_VARIABLE):
        raise SetupError(
            (
                f"This machine's {NAME} is too old: it takes a session's token as an argument, "
                "which every process can read."
            )
            if version
            else f"This machine's {NAME} doesn't report its version.",
            given=f"{found}, version {version}" if version else found,
            allowed=f"newer than {_LAST_WITHOUT_VARIABLE}",
            advice=f"install a new one: {_PAGE}; or use another connection: {_ALTERNATIVES}",
        )
    return Plugin(found, version)


def _version(path: str) -> str | None:
    try:
        answer = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=_VERSION_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    version = answer.stdout.strip()
    return version if _VERSION.fullmatch(version) else None
