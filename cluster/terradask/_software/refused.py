"""Errors about software that hosts can't have, raised by several modules, and what such a file must
not name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from terradask.errors import SoftwareUnusable


def file_refused(path: Path, why: str, *, advice: str | None = None) -> SoftwareUnusable:
    """Return the error for the file in `software`; `why` has no credentials."""
    is_lock = path.suffix not in (".yml", ".yaml")
    again = ", or lock it again, such as with uv lock" if is_lock else ""
    return SoftwareUnusable(
        "Hosts can't install from the file that `software` names.",
        given=f"{path}: {why}",
        allowed="a uv.lock, pylock.toml, pyproject.toml, requirements file (.txt, .in) or "
        "environment.yml for the Python, the Dask and the hosts of this cluster",
        advice=advice or f"correct the file{again}",
    )


def wheel_refused(package: str, why: str) -> SoftwareUnusable:
    """Return the error for a package that can't be built; `why` has no credentials."""
    return SoftwareUnusable(
        f"No wheel for hosts can be made of {package}.",
        given=why,
        allowed="a package whose wheel fits the hosts' platform and contains all of its files",
        advice=(
            "fix the build, or leave the package out (with package_sync: "
            "`package_sync_ignore`) and send modules with Client.upload_file"
        ),
    )


def index_settings_refused(place: str, why: str) -> SoftwareUnusable:
    """Return the error for a file or variable that configures package indexes; `why` leaves out its
    content, which may have credentials.
    """
    return SoftwareUnusable(
        "The configuration of package indexes can't be read.",
        given=f"{place}: {why}",
        allowed="a variable, uv.toml, pyproject.toml or pip.conf as uv and pip read it",
        advice="correct it, or move the file away",
    )


def origins_refused(origins: Mapping[str, str]) -> SoftwareUnusable:
    """Return the error for packages (name -> version and origin) that were installed from a folder,
    a file, a repository or a conda channel.
    """
    return SoftwareUnusable(
        "Hosts would install packages from an index that were installed locally from elsewhere: "
        "the index may have another author's package under the same name.",
        given="; ".join(f"{name} {origin}" for name, origin in origins.items()),
        allowed="packages that were installed from a package index",
        advice=(
            "publish them to the index that hosts use and install them from there, or leave "
            "them out of `software` and send modules with Client.upload_file; what conda "
            "installed may stay if `software_lock` names its hashes"
        ),
    )


# ---- AWS credentials, which are kept from package tools ------------------------------------------
# A packages file from a stranger's repository can send variables to an index that it names.


_NAMES = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        # With it a GitHub job gets the token that AWS accepts for a role.
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    }
)
_NAMED = re.compile(rf"\$\{{?({'|'.join(sorted(_NAMES))})\b")


def without_aws_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without AWS credentials."""
    return {name: value for name, value in environ.items() if name not in _NAMES}


def refuse_aws_secrets(path: Path, text: str) -> None:
    """Refuse a file's text that names such a variable. Raises `SoftwareUnusable`."""
    if named := _NAMED.search(text):
        raise file_refused(
            path,
            f"it names the variable {named[1]}, which would send your AWS credentials to the index",
            advice="find out who wrote the file; keep an index's credentials in a variable of "
            "their own, such as one with a CodeArtifact token",
        )
