"""Correct moto where it is less strict than AWS or lacks a feature: one module a subject, with the
reasons.

A module's ``install()`` replaces moto's functions in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from types import ModuleType

__all__ = ["install_all"]

#: Those that replace the same functions as others, in their order: a later one is called first.
_IN_ORDER = (
    "clock",
    "lookups",
    "ec2_errors",
    "networks",
    "answer_members",
    "pages",
    "security_groups",
    "buckets",
    "bucket_settings",
    "object_checksums",
    "object_versions",
    "object_listings",
    "object_conditions",
    "object_uploads",
    "object_tags",
    "s3_refusals",
    "images",
    "own_images",
    "identities",
    "instance_types",
    "launch_templates",
    "launches",
    "capacity_reservations",
    "descriptions",
    "slow_instances",
    "log_events",
    "log_groups",
    "embedded_metrics",
    "group_launches",
    "group_limits",
    "group_schedules",
    "group_capacity",
    "lifecycle_hooks",
    "warm_pools",
    "group_api",
    "spot",
)


def install_all(*, public_cidr: str) -> None:
    """Install every correction. Raises `MotoChanged`."""
    from terradask_simulator.aws.fidelity import addresses
    from terradask_simulator.aws.fidelity.patching import MotoChanged

    try:
        addresses.install(public_cidr)
        for module in modules():
            module.install()
    except (AttributeError, ImportError) as error:
        raise MotoChanged(str(error)) from error


def modules() -> Iterator[ModuleType]:
    """Yield the modules whose order matters, then the others of this folder that install without
    an argument.
    """
    names = [*_IN_ORDER, *(one.name for one in iter_modules(__path__))]
    for name in dict.fromkeys(names):
        module = import_module(f"{__name__}.{name}")
        install = getattr(module, "install", None)
        if install is not None and not signature(install).parameters:
            yield module
