"""Environments that hosts can't have as they are here."""

from __future__ import annotations

import re
from pathlib import Path

from terradask_modules.errors import InvalidInput, TerradaskError

#: What uv says of a package that it can't build.
_BUILD_FAILED = re.compile(r"Failed to (?:download and )?build|build backend returned an error")


class SoftwareUnusable(InvalidInput):
    """Hosts can't have the packages, modules, environment or image that they are to have: install
    others, correct what names them, or leave some out.
    """


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
