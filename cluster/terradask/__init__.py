"""Dask clusters in your own AWS account, as Terraform you can review.

``Cluster`` is what a data scientist needs; ``Workspace`` plans and applies the network and clusters step by step.
"""

from __future__ import annotations

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from terradask._runtime.cluster import Cluster
    from terradask._runtime.deployment import Deployment
    from terradask._runtime.status import DeploymentStatus
    from terradask._workspace import Plan, Workspace

__all__ = ["Cluster", "Deployment", "DeploymentStatus", "Plan", "Workspace", "__version__"]

__version__ = _version("terradask")

_HOMES = {
    "Cluster": "terradask._runtime.cluster",
    "Deployment": "terradask._runtime.deployment",
    "DeploymentStatus": "terradask._runtime.status",
    "Plan": "terradask._workspace",
    "Workspace": "terradask._workspace",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
