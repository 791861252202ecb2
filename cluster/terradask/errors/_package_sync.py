"""Environments that hosts can't have as they are here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from terradask_modules.errors import InvalidInput, TerradaskError

#: What uv says of a package that it can't build.
_BUILD_FAILED = re.compile(r"Failed to (?:download and )?build|build backend returned an error")


class ContainerUnusable(InvalidInput):
    """The container image can't be what hosts run: the registry doesn't have it, or not for them.

    Parameters
    ----------
    container
        The image's name.
    why
        What prevents it.
    advice
        What to do.
    """

    def __init__(self, container: str, why: str, *, advice: str | None = None) -> None:
        super().__init__(
            "The container image can't be what hosts run.",
            given=f"{container}: {why}",
            allowed=(
                "an image of Linux for the hosts' processors, in a public registry or a repository "
                "of Amazon ECR"
            ),
            advice=advice or "correct the name or the tag, or build the image for these hosts",
        )
        self.container = container
        self.why = why


class IndexSettingsInvalid(InvalidInput):
    """What tells uv or pip their package indexes can't be read.

    Parameters
    ----------
    path
        The file, or the variable.
    why
        What is wrong with it, without its content, which may have credentials.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            "What configures package indexes here can't be read.",
            given=f"{path}: {why}",
            allowed="a variable, uv.toml, pyproject.toml or pip.conf as uv and pip read it",
            advice="correct it, or move the file away",
        )
        self.path = path
        self.why = why


class SoftwareFileInvalid(InvalidInput):
    """The file that `software` names can't be what hosts install.

    Parameters
    ----------
    path
        The file.
    why
        What prevents it, without credentials.
    advice
        What to do. By default to correct it, or lock it again.
    """

    def __init__(self, path: Path, why: str, *, advice: str | None = None) -> None:
        is_lock = path.suffix not in (".yml", ".yaml")
        again = ", or lock it again, such as with uv lock" if is_lock else ""
        super().__init__(
            "The file that `software` names can't be what hosts install.",
            given=f"{path}: {why}",
            allowed="a uv.lock, pylock.toml, pyproject.toml, requirements file (.txt, .in) or "
            "environment.yml for the Python, the Dask and the hosts of this cluster",
            advice=advice or f"correct the file{again}",
        )
        self.path = path
        self.why = why


class EnvironmentNotFound(InvalidInput):
    """No environment of this name is in the workspace's bucket.

    Parameters
    ----------
    name
        The name.
    existing
        Those that are there.
    """

    def __init__(self, name: str, existing: Sequence[str]) -> None:
        # `default` needs no table: `terradask_stacks.settings.environments`.
        table = (
            "" if name == "default" else f"declare [environments.{name}] in terradask.toml, and "
        )
        super().__init__(
            f"There is no environment {name!r} in this workspace.",
            given=name,
            allowed=", ".join(existing) or "none is there yet",
            advice=f"{table}run: terradask env create {name}. To have a package of this name, "
            f"write software=[{name!r}]",
        )
        self.name = name
        self.existing = list(existing)


class EnvironmentUnusable(InvalidInput):
    """A named environment isn't for this client, or for the cluster's hosts.

    Parameters
    ----------
    name
        Its name.
    why
        What differs.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"Environment {name!r} can't be used from here.",
            given=why,
            allowed="an environment with the Python, the Dask and the architecture of this cluster",
            advice=f"install these versions here, or create it again: terradask env create {name}",
        )
        self.name = name
        self.why = why


class EnvironmentNotBuilt(TerradaskError):
    """A host could not build an environment for others.

    Parameters
    ----------
    cluster
        The cluster that was to build it.
    why
        The host's reason.
    """

    def __init__(self, cluster: str, why: str, *, advice: str | None = None) -> None:
        super().__init__(
            f"Cluster {cluster!r} has built no environment.",
            given=why,
            advice=advice
            or "see its host's log: terradask logs shows it; hosts of other clusters build "
            "the environment themselves until then",
        )
        self.cluster = cluster
        self.why = why


class LocalModulesRefused(InvalidInput):
    """The Python files of the working directory can't be what hosts install.

    Parameters
    ----------
    folder
        It.
    why
        What prevents it.
    """

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            "The Python files of the working directory can't be what hosts install.",
            given=f"{folder}: {why}",
            allowed="modules, and folders with an __init__.py, of up to 20 MB in the folder "
            "itself, with names that no package on hosts has",
            advice="start in the folder of your modules, rename them, leave out the package "
            "whose name they have (package_sync_ignore), or make a package of them in place of "
            "local_modules",
        )
        self.folder = folder
        self.why = why


class SoftwareNotResolved(TerradaskError):
    """uv, or rattler, found no solution for packages on the hosts' platform, or could not look.

    Parameters
    ----------
    output
        What it said, without credentials.
    unanswered
        Whether it was an index or a channel that didn't answer, or denied access.
    path
        The file that names the packages, if it isn't this environment that has them.
    resolver
        Which of both.
    """

    def __init__(
        self,
        output: str,
        *,
        unanswered: bool = False,
        path: Path | None = None,
        resolver: str = "uv",
    ) -> None:
        if unanswered and resolver != "uv":
            advice = (
                "see that the file's channels are there, answer, and take the credentials in their "
                "URLs, in netrc, or of pixi auth login"
            )
        elif unanswered:
            advice = (
                "see that the index answers and takes your credentials: terradask software "
                "indexes lists the indexes, where each is configured, and where its credentials "
                "are from"
            )
            if path is None:
                advice += "; or package_sync=False, with which nothing is resolved here"
        elif resolver != "uv":
            advice = (
                "correct the file (of another platform's: conda env export --from-history). Hosts "
                "need the Python, the Dask, distributed and cloudpickle of here: what no channel "
                "has of Dask in this version, put into its list for pip"
            )
        elif path is None:
            advice = (
                "leave packages out with `package_sync_ignore`, or name those that tasks need "
                "in `package_sync` (False: hosts get Dask alone)"
            )
        else:
            advice = "correct the file"
            if _BUILD_FAILED.search(output):
                advice = "let it build here, such as with uv build; its own lines are above"
            elif re.search(r"\b(?:dask|distributed|cloudpickle)\b", output):
                advice += (
                    ". Hosts need Dask, distributed and cloudpickle in the versions that are "
                    "installed here"
                )
            if "no usable wheels" in output or "no wheels" in output:
                advice += ". A package without a wheel is built here if you write NAME @ URL"
        super().__init__(
            f"{resolver} could not resolve {path or 'this environment'} for hosts:\n{output}",
            advice=advice,
        )
        self.resolver = resolver
        self.output = output
        self.unanswered = unanswered
        self.path = path


class WheelNotBuilt(InvalidInput):
    """A package that came from no index can't be made a wheel for the hosts.

    Parameters
    ----------
    package
        Its name.
    why
        What prevents it, without credentials.
    """

    def __init__(self, package: str, why: str) -> None:
        super().__init__(
            f"No wheel for hosts can be made of {package}.",
            given=why,
            allowed="a package whose wheel is for hosts' platform and holds all of its files",
            advice=(
                "correct what the build says, or leave the package out (with package_sync: "
                "`package_sync_ignore`) and send modules with Client.upload_file"
            ),
        )
        self.package = package
        self.why = why


class PackagesNotSynced(InvalidInput):
    """Hosts can't have packages of this environment, or not in the versions that are here.

    Parameters
    ----------
    missing
        Package -> why hosts can't have it.
    changed
        Package -> the version here, and the one that hosts could have.
    """

    def __init__(
        self, missing: Mapping[str, str], changed: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        self.missing, self.changed = dict(missing), dict(changed or {})
        found = [f"{name}: {why}" for name, why in sorted(self.missing.items())]
        found += [
            f"{name}: {here} here, {there} on hosts"
            for name, (here, there) in sorted(self.changed.items())
        ]
        super().__init__(
            "Hosts can't have all packages as they are installed here.",
            given="; ".join(found),
            allowed="packages from an index that has a wheel of this version for hosts",
            advice=(
                "install other versions here, leave packages out with `package_sync_ignore`, or "
                "with package_sync_fail_on='critical-only' do without those that Dask doesn't need"
            ),
        )
