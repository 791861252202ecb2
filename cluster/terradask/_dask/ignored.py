"""Arguments that only a start applies, given for a cluster that already runs. Pure."""

from __future__ import annotations

from terradask._dask.request import Request
from terradask_host.documents import Run
from terradask_stacks.numbers import first_of


def ignored_arguments(request: Request, running: Run) -> list[str]:
    """Return the arguments of a request that a running cluster doesn't take."""
    asked, groups = request.run, request.structure.get("worker_groups", {})
    ignored = [
        f"worker_groups[{name!r}]['n_workers']"
        for name, group in groups.items()
        if "n_workers" in group
    ]
    if first_of(asked.get("n_workers")) not in (None, running.n_workers):
        ignored.insert(0, "n_workers")
    if not asked.get("environ", {}).items() <= running.environ.items():
        ignored.append("environ")
    return ignored
