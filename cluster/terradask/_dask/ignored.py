"""Warn about arguments that an already running cluster ignores: only a start applies them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from terradask._dask.arguments import ARGUMENT_OF, RUN_SETTINGS
from terradask._dask.request import Request
from terradask_host.documents import LifetimePolicy, Run

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings

logger = logging.getLogger("terradask")

#: Ways to change them without another start.
_NOW = {
    "n_workers": "cluster.scale and cluster.adapt change numbers now",
    "no_client_timeout": "cluster.set_keepalive changes no_client_timeout now",
    "software": "cluster.sync_software brings edited packages now",
}


def ignored_arguments(request: Request, asked: ClusterSettings, running: Run) -> list[str]:
    """Return a request's arguments that a running cluster ignores."""
    groups = request.given.get("worker_groups", {})
    return [
        *(
            ARGUMENT_OF.get(name, name)
            for name in request.given
            if name in RUN_SETTINGS and not _matches_run(name, getattr(asked, name), running)
        ),
        *(
            f"worker_groups[{name!r}]['n_workers']"
            for name, group in groups.items()
            if "n_workers" in group
        ),
    ]


def _matches_run(name: str, given: Any, running: Run) -> bool:
    """Return whether a running cluster has the given value: by `_MATCHERS`, else by the run's field
    of that name. Settings without such a field concern the client only.
    """
    if (matches := _MATCHERS.get(name)) is not None:
        return matches(given, running)
    return bool(getattr(running, name, given) == given)


def warn_of_ignored(request: Request, asked: ClusterSettings, running: Run) -> None:
    """Log a warning about arguments that a running cluster ignores."""
    ignored = ignored_arguments(request, asked, running)
    if ignored:
        now = [text for name, text in _NOW.items() if any(name in each for each in ignored)]
        logger.warning(
            "cluster %s is already running: %s only at its start; %s",
            request.name,
            " and ".join(ignored) + (" applies" if len(ignored) == 1 else " apply"),
            "; ".join([*now, f"to start it again: terradask stop {request.name}"]),
        )


def warn_without_hashes(name: str, run: Run | None, asked: ClusterSettings) -> None:
    """Log a warning if hosts install packages by version although the settings require hashes."""
    if run is not None and asked.software_lock is not None and not run.hashed:
        logger.warning(
            "cluster %s was started without software_lock: its hosts install packages by "
            "version, not by hash. Stop it, and start it with the argument; a setting in "
            "terradask.toml takes effect at the next apply",
            name,
        )


_LIFE = ("idle_timeout_seconds", "no_client_timeout_seconds", "max_lifetime_seconds")


def _lifetime_matcher(field: str) -> Callable[[Any, Run], bool]:
    def matches(given: Any, running: Run) -> bool:
        life = running.life or LifetimePolicy()
        return bool((None if given is False else given) == getattr(life, field))

    return matches


#: Settings that only a start applies -> whether a running cluster matches the given value, where
#: that differs from equality with the run's field.
_MATCHERS: Mapping[str, Callable[[Any, Run], bool]] = {
    # A pair also requests adaptive scaling.
    "n_workers": lambda given, run: not isinstance(given, Sequence) and given == run.n_workers,
    "environ": lambda given, run: given.items() <= run.environ.items(),
    **{name: _lifetime_matcher(name) for name in _LIFE},
    "send_dask_config": lambda given, run: given or not run.dask_config,
    # A run doesn't record these settings; attaching compares the packages themselves.
    **dict.fromkeys(
        (
            *("software", "local_modules", "package_sync", "package_sync_strict"),
            *("package_sync_ignore", "package_sync_fail_on"),
        ),
        lambda given, _: not given,
    ),
}
