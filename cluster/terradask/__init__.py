"""Dask clusters in your own AWS account, as Terraform you can review.

Most programs need only `Cluster`::

    from terradask import Cluster

    with Cluster(n_workers=10) as cluster:
        client = cluster.get_client()

``help(terradask.Cluster)`` has its arguments and methods by topic.

Clusters
    Cluster, function and the Function that it makes
Workspace: the network and its clusters, step by step
    Workspace, Plan, Deployment, CapacityWait, DeploymentStatus, LiveView
Jobs: commands on a cluster's hosts
    Job, JobRecord, JobTask, JobOutput
Instance types and prices
    list_instance_types, InstanceType, PricedInstanceType, Gpus
Offers: saved settings with bounds
    offers, and the Offers and Offer that it returns; load_ipython_extension, which
    ``%load_ext terradask`` calls, completes their names, clusters' names and values
Options for all clusters
    set_backend_options, BackendOptionsChange
Modules
    terradask.errors: every error, in one tree
    terradask.cost: estimates of plans, and costs of runs
    terradask.policy: findings on plans
    terradask.cli, terradask.app: the command line, and the app of ``cdktf``
Settings
    ``terradask.toml``, ``TERRADASK_<SECTION>__<KEY>`` variables or Dask's configuration;
    ``terradask init`` writes one
Command line
    ``terradask --help``; ``terradask doctor`` checks this machine and the account
Documentation
    https://github.com/terradask/terradask/tree/main/docs

``__version__`` is the version of this package.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING, Any

from terradask_host import __version__ as __version__
from terradask_modules.short_errors import show_uncaught as _show_uncaught

if TYPE_CHECKING:
    from terradask import errors as errors
    from terradask._catalog.instance_types.listing import PricedInstanceType as PricedInstanceType
    from terradask._catalog.instance_types.model import Gpus as Gpus
    from terradask._catalog.instance_types.model import InstanceType as InstanceType
    from terradask._clusters.deployment import Deployment as Deployment
    from terradask._clusters.jobs.store import JobOutput as JobOutput
    from terradask._clusters.pending_launches import CapacityWait as CapacityWait
    from terradask._dask.cluster import Cluster as Cluster
    from terradask._dask.completion import load_ipython_extension as load_ipython_extension
    from terradask._dask.functions.function import Function as Function
    from terradask._dask.functions.function import function as function
    from terradask._dask.job import Job as Job
    from terradask._observe.live_view import LiveView as LiveView
    from terradask._observe.status import DeploymentStatus as DeploymentStatus
    from terradask._plans.saved import Plan as Plan
    from terradask._workspace.backend_options import BackendOptionsChange as BackendOptionsChange
    from terradask._workspace.backend_options import set_backend_options as set_backend_options
    from terradask._workspace.instance_types import list_instance_types as list_instance_types
    from terradask._workspace.offers import Offer as Offer
    from terradask._workspace.offers import Offers as Offers
    from terradask._workspace.offers import offers as offers
    from terradask._workspace.workspace import Workspace as Workspace
    from terradask_host.jobs import JobRecord as JobRecord
    from terradask_host.rules.job_tasks import JobTask as JobTask


class _PlainMessages(_logging.Filter):
    """Removes control characters from messages, which may contain texts of hosts, tags and AWS, and
    reach a terminal.
    """

    def filter(self, record: _logging.LogRecord) -> bool:
        from terradask_host.documents import plain_text

        text = record.getMessage()
        if not text.isprintable() and (plain := plain_text(text)) != text:
            record.msg, record.args = plain, ()
        if record.exc_info and not record.exc_text:
            # Formatters use it unchanged, with others' error texts in it.
            record.exc_text = plain_text(_logging.Formatter().formatException(record.exc_info))
        return True


# Every module logs to this logger, since the filter would miss records of its children.
_logging.getLogger("terradask").addFilter(_PlainMessages())
_show_uncaught()

_HOMES = {
    "BackendOptionsChange": "terradask._workspace.backend_options",
    "CapacityWait": "terradask._clusters.pending_launches",
    "Cluster": "terradask._dask.cluster",
    "Deployment": "terradask._clusters.deployment",
    "DeploymentStatus": "terradask._observe.status",
    "Function": "terradask._dask.functions.function",
    "Gpus": "terradask._catalog.instance_types.model",
    "InstanceType": "terradask._catalog.instance_types.model",
    "Job": "terradask._dask.job",
    "JobOutput": "terradask._clusters.jobs.store",
    "JobRecord": "terradask_host.jobs",
    "JobTask": "terradask_host.rules.job_tasks",
    "LiveView": "terradask._observe.live_view",
    "Offer": "terradask._workspace.offers",
    "Offers": "terradask._workspace.offers",
    "Plan": "terradask._plans.saved",
    "PricedInstanceType": "terradask._catalog.instance_types.listing",
    "Workspace": "terradask._workspace.workspace",
    "function": "terradask._dask.functions.function",
    "list_instance_types": "terradask._workspace.instance_types",
    "load_ipython_extension": "terradask._dask.completion",
    "offers": "terradask._workspace.offers",
    "set_backend_options": "terradask._workspace.backend_options",
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - names


#: Public modules, imported at their first use.
_MODULES = ("app", "cli", "cost", "errors", "policy")


# Type checkers would take every name for known.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
