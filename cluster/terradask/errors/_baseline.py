"""The baseline: the network that clusters share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from terradask_modules.errors import TerradaskError


class BaselineError(TerradaskError):
    """A problem with the network that clusters share."""

    exit_code = 6


class NoBaseline(BaselineError):
    """The network isn't deployed."""


class BaselineFormat(BaselineError):
    """The network was made by a version of terradask whose format the client can't read.

    Parameters
    ----------
    found
        The format in the bucket.
    known
        The format that this client reads.
    """

    def __init__(self, problem: str, *, found: Any, known: int, advice: str) -> None:
        super().__init__(problem, given=f"format {found}", allowed=f"format {known}", advice=advice)
        self.found = found
        self.known = known


class ArchitectureMissing(BaselineError):
    """The network has no launch templates for the architecture of a cluster's machines.

    Parameters
    ----------
    architecture
        The missing one: ``arm64`` or ``x86_64``.
    types
        Instance types of the cluster.
    architectures
        What the network has.
    """

    def __init__(
        self, architecture: str, *, types: Sequence[str], architectures: Iterable[str]
    ) -> None:
        there = sorted(architectures)
        wanted = ", ".join(f'"{one}"' for one in sorted({architecture, *there}, reverse=True))
        super().__init__(
            f"the network has no launch templates for {architecture}",
            given=", ".join(types[:3]) + (", …" if len(types) > 3 else ""),
            allowed=f"instance types for {' or '.join(there)}",
            advice=f"set network.architectures = [{wanted}] and run: terradask apply network (it "
            "replaces no running host); or choose "
            f"other types (cluster.arm = {'false' if architecture == 'arm64' else 'true'})",
        )
        self.architecture = architecture
        self.types = tuple(types)
        self.architectures = tuple(there)


class BaselineInUse(BaselineError):
    """The network can't be destroyed while deployments use it.

    Parameters
    ----------
    clusters
        Names of the deployments.
    """

    exit_code = 5

    def __init__(self, clusters: Sequence[str]) -> None:
        super().__init__(
            f"{len(clusters)} deployment{'s' if len(clusters) != 1 else ''} still use this network",
            given=", ".join(clusters),
            advice="destroy them first: "
            + "; ".join(f"terradask destroy {name}" for name in clusters),
        )
        self.clusters = tuple(clusters)


class HostPackagesMissing(BaselineError):
    """The host program's own packages aren't in the workspace's bucket: no host could boot.

    Parameters
    ----------
    architecture
        Of the hosts that would look for them.
    where
        The host program, beside which they belong.
    """

    def __init__(self, architecture: str, *, where: str) -> None:
        super().__init__(
            f"hosts ({architecture}) would not find their own program's packages",
            given=f"no package beside {where}",
            advice="put them there: terradask doctor --fix, or terradask apply network",
        )
        self.architecture = architecture
        self.where = where


class HostPackagesUnavailable(BaselineError):
    """The host program's own packages can't be had here, neither from an index nor from a folder.

    Parameters
    ----------
    packages
        Those that are needed, each as ``name==version``.
    """

    def __init__(
        self,
        problem: str,
        *,
        packages: Iterable[str],
        given: str | None = None,
        allowed: str | None = None,
    ) -> None:
        self.packages = tuple(packages)
        super().__init__(
            problem,
            given=given or ", ".join(self.packages),
            allowed=allowed,
            advice="configure pip's index (PIP_INDEX_URL, or pip.conf), or set "
            "network.host_packages to a folder with the archives",
        )
