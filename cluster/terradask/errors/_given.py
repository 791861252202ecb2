"""Given values that can't be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.errors import InvalidInput


class UnknownInstanceType(InvalidInput):
    """An instance type that the region or the zone doesn't offer."""


class SoftwareLockInvalid(InvalidInput):
    """The file that `software_lock` names doesn't exist, can't be read, or has an unknown format.

    Parameters
    ----------
    how
        What is wrong with it, as the end of a sentence: ``"isn't there"``.
    path
        The file.
    given
        The place in it, if that is known; never its content.
    advice
        What to do. By default the commands that write such a file.
    """

    def __init__(
        self, how: str, *, path: str, given: str | None = None, advice: str | None = None
    ) -> None:
        super().__init__(
            f"The file that software_lock names {how}.",
            given=path if given is None else f"{path}: {given}",
            allowed=(
                "a requirements file with --hash, uv.lock or pylock.toml, of the environment "
                "where the cluster is started"
            ),
            advice=advice
            or (
                "name the lock file of this environment; `uv pip compile --generate-hashes` or "
                "`pip-compile --generate-hashes` writes one"
            ),
        )
        self.path = path


class SoftwareNotLocked(InvalidInput):
    """The file that `software_lock` names lacks packages, versions or hashes of what is installed
    here.

    Parameters
    ----------
    path
        The file.
    installed
        Version of each package that hosts would install.
    missing
        Packages that aren't in it, or not in an exact version.
    other_versions
        Package -> the versions that are in it, if the installed one isn't.
    unhashed
        Packages that are in it in the installed version, without SHA-256.
    """

    def __init__(
        self,
        path: str,
        *,
        installed: Mapping[str, str],
        missing: Sequence[str] = (),
        other_versions: Mapping[str, Sequence[str]] | None = None,
        unhashed: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.missing = list(missing)
        self.other_versions = {
            name: list(versions) for name, versions in (other_versions or {}).items()
        }
        self.unhashed = list(unhashed)
        found = [
            *(
                f"{name} {installed[name]}: not in it with an exact version"
                for name in self.missing
            ),
            *(
                f"{name} {installed[name]}: it has {', '.join(versions)}"
                for name, versions in self.other_versions.items()
            ),
            *(f"{name} {installed[name]}: without a SHA-256" for name in self.unhashed),
        ]
        super().__init__(
            "The file that software_lock names doesn't contain everything that hosts would "
            "install, as it is installed here.",
            given=f"{path}; {'; '.join(found)}",
            allowed=(
                "each package in the version that is installed here, with the hashes of its "
                "archives"
            ),
            advice="install the versions in the file, or lock this environment again, with hashes",
        )


class PythonNotOnHosts(InvalidInput):
    """Hosts have no Python of the client's version, which they need to run its functions.

    Parameters
    ----------
    python
        The client's, as ``3.15``.
    allowed
        Those that hosts have.
    """

    def __init__(self, python: str, allowed: Sequence[str]) -> None:
        super().__init__(
            f"Hosts have no Python {python}, and they need the version that is used here.",
            given=python,
            allowed=f"Python {', '.join(allowed)}, which Amazon Linux 2023 has",
            advice="use an environment with one of these versions",
        )
        self.python = python


class SoftwareNotInstalled(InvalidInput):
    """A package for the hosts is not installed where the cluster is made, or in another version."""


class SoftwareNotFromIndex(InvalidInput):
    """Packages for the hosts were installed here from a folder, a file, a repository or a conda
    channel. Hosts install from a package index, which may have another author's package under the
    same name.

    Parameters
    ----------
    origins
        Package -> its version and where it came from.
    """

    def __init__(self, origins: Mapping[str, str]) -> None:
        super().__init__(
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
        self.origins = dict(origins)


class NoMatchingType(InvalidInput):
    """No instance type fits the request.

    Parameters
    ----------
    alternatives
        The nearest requests that match a type: ``text`` for people, ``change`` (parameter -> value,
        None to leave it out), ``types``, ``usd_per_hour`` of the first of them.
    """

    def __init__(
        self,
        problem: str,
        *,
        given: Any = None,
        allowed: str | None = None,
        alternatives: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        advice = (
            "request one of these:"
            if alternatives
            else "request other hardware; `terradask types` lists the types"
        )
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.alternatives = tuple(dict(one) for one in alternatives)

    def _text(self) -> str:
        """Return the problem, and the alternatives one below the other."""
        return "\n".join([super()._text(), *(f"    {one['text']}" for one in self.alternatives)])
