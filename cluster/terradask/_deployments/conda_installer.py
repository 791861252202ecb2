"""py-rattler for hosts: the wheel that installs conda's packages there, in one version, by hash."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from terradask._network.host_packages import BootLock, download, packages_cache
from terradask._software.local_wheels import LocalWheel
from terradask.errors import BaselineError, SetupError

INSTALLER = "py-rattler"
_LOCK = "conda_installer.lock"


def installer_lock() -> BootLock:
    """Return its version and hashes."""
    return BootLock(files(__package__).joinpath(_LOCK).read_bytes())


def installer_wheel(architecture: str) -> LocalWheel:
    """Return its wheel for hosts of a processor architecture, downloaded by pip unless it is there.

    Raises `SetupError`.
    """
    lock, folder = installer_lock(), packages_cache() / "conda"
    (package,) = lock.hashes
    found = lock.chosen(folder, architecture)
    if not found:
        try:
            download(lock, folder, architecture)
        except BaselineError as error:
            raise _unavailable(package, folder, str(error.given)) from error
        found = lock.chosen(folder, architecture)
    if not found:
        raise _unavailable(package, folder, f"no wheel for {architecture}")
    version = package.removeprefix(f"{INSTALLER}==")
    return LocalWheel(INSTALLER, version, found[package].name, found[package].read_bytes())


def _unavailable(package: str, folder: Path, why: str) -> SetupError:
    return SetupError(
        f"{package}, which installs conda's packages on hosts, can't be had.",
        given=why,
        allowed=f"its wheel for hosts' processors, from pip's index or in {folder}",
        advice="configure pip's index (PIP_INDEX_URL, or pip.conf), or copy the wheel there "
        "from a machine that has downloaded it",
    )
