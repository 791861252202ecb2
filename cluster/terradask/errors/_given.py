"""What was given, or this machine has, can't be used."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from terradask_modules.errors import InvalidInput, TerradaskError

#: What uv says of a package that it can't build.
_BUILD_FAILED = re.compile(r"Failed to (?:download and )?build|build backend returned an error")


class NoMatchingType(InvalidInput):
    """No instance type fits the request, or one that it names isn't offered: choose others.

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
        advice: str = "request other hardware; `terradask types` lists the types",
    ) -> None:
        advice = "request one of these:" if alternatives else advice
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.alternatives = tuple(dict(one) for one in alternatives)

    def _text(self) -> str:
        """Return the problem, and the alternatives one below the other."""
        return "\n".join([super()._text(), *(f"    {one['text']}" for one in self.alternatives)])


class SoftwareUnusable(InvalidInput):
    """Hosts can't install the requested packages, modules, environment or image: change or leave
    out some.
    """


class SoftwareNotResolved(TerradaskError):
    """uv or rattler found no solution for packages on the hosts' platform, or could not look for
    one.

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
                "see that the index answers and takes your credentials: terradask software indexes "
                "lists the indexes, where each is configured, and where its credentials are from"
            )
            if path is None:
                advice += "; or package_sync=False, with which nothing is resolved here"
        elif resolver != "uv":
            advice = (
                "correct the file (for one of another platform: conda env export --from-history). "
                "Hosts need your versions of Python, Dask, distributed and cloudpickle: put Dask's "
                "packages that no channel has in these versions into the file's list for pip"
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
