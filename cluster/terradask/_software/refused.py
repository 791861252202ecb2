"""Errors of software that hosts can't have, which several modules raise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from terradask.errors import SoftwareUnusable


def file_refused(path: Path, why: str, *, advice: str | None = None) -> SoftwareUnusable:
    """Return the error for a file that `software` names; `why` is without credentials."""
    is_lock = path.suffix not in (".yml", ".yaml")
    again = ", or lock it again, such as with uv lock" if is_lock else ""
    return SoftwareUnusable(
        "The file that `software` names can't be what hosts install.",
        given=f"{path}: {why}",
        allowed="a uv.lock, pylock.toml, pyproject.toml, requirements file (.txt, .in) or "
        "environment.yml for the Python, the Dask and the hosts of this cluster",
        advice=advice or f"correct the file{again}",
    )


def wheel_refused(package: str, why: str) -> SoftwareUnusable:
    """Return the error for a package that came from no index, and of which no wheel can be made;
    `why` is without credentials.
    """
    return SoftwareUnusable(
        f"No wheel for hosts can be made of {package}.",
        given=why,
        allowed="a package whose wheel is for hosts' platform and holds all of its files",
        advice=(
            "correct what the build says, or leave the package out (with package_sync: "
            "`package_sync_ignore`) and send modules with Client.upload_file"
        ),
    )


def index_settings_refused(place: str, why: str) -> SoftwareUnusable:
    """Return the error for a file or variable that tells uv or pip their package indexes; `why` is
    without its content, which may have credentials.
    """
    return SoftwareUnusable(
        "What configures package indexes here can't be read.",
        given=f"{place}: {why}",
        allowed="a variable, uv.toml, pyproject.toml or pip.conf as uv and pip read it",
        advice="correct it, or move the file away",
    )


def origins_refused(origins: Mapping[str, str]) -> SoftwareUnusable:
    """Return the error for packages that were installed from a folder, a file, a repository or a
    conda channel: each with its version and where it came from.
    """
    return SoftwareUnusable(
        "Hosts would install packages from the package index that were not installed from "
        "one here: the index may have another author's package under the same name.",
        given="; ".join(f"{name} {origin}" for name, origin in origins.items()),
        allowed="packages that were installed here from a package index",
        advice=(
            "publish them to the index that hosts use and install them from there, or leave "
            "them out of `software` and send modules with Client.upload_file; what conda "
            "installed may stay if `software_lock` names its hashes"
        ),
    )
