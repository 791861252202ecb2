"""Dask clusters in your own AWS account, as Terraform you can review.

``Cluster`` is what a data scientist needs; ``Workspace`` plans and applies the network and clusters step by step.
"""

from __future__ import annotations

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from terradask._backend_options import BackendOptionsChange, set_backend_options
    from terradask._instance_types import list_instance_types
    from terradask._runtime.cluster import Cluster
    from terradask._runtime.deployment import Deployment
    from terradask._runtime.status import DeploymentStatus
    from terradask._workspace import Plan, Workspace
    from terradask.hardware.instance_types import Gpus, InstanceType
    from terradask.hardware.listing import PricedInstanceType

__all__ = [
    "BackendOptionsChange",
    "Cluster",
    "Deployment",
    "DeploymentStatus",
    "Gpus",
    "InstanceType",
    "Plan",
    "PricedInstanceType",
    "Workspace",
    "__version__",
    "list_instance_types",
    "set_backend_options",
]

__version__ = _version("terradask")

_HOMES = {
    "BackendOptionsChange": "terradask._backend_options",
    "Cluster": "terradask._runtime.cluster",
    "Deployment": "terradask._runtime.deployment",
    "DeploymentStatus": "terradask._runtime.status",
    "Gpus": "terradask.hardware.instance_types",
    "InstanceType": "terradask.hardware.instance_types",
    "Plan": "terradask._workspace",
    "PricedInstanceType": "terradask.hardware.listing",
    "Workspace": "terradask._workspace",
    "list_instance_types": "terradask._instance_types",
    "set_backend_options": "terradask._backend_options",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
