"""Correct moto where it is less strict than AWS or lacks a feature: one module a subject, with the
reasons.

Each of these modules has ``install()``, which replaces moto's functions in place.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["install_all"]

_MODULES = (
    "clock",
    "lookups",
    "ec2_errors",
    "networks",
    "answer_members",
    "pages",
    "security_groups",
    "buckets",
    "budgets",
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
    "keys",
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
    "parameters",
    "placement_groups",
    "pricing_spot",
    "quotas",
    "secrets_manager",
    "session_tokens",
    "assumed_roles",
    "simulated_policies",
    "spot",
    "topics",
)


def install_all(*, public_cidr: str) -> None:
    """Install every correction. Raises `MotoChanged`."""
    from terradask_simulator.aws.fidelity import addresses
    from terradask_simulator.aws.fidelity.patching import MotoChanged

    try:
        addresses.install(public_cidr)
        for name in _MODULES:
            import_module(f"{__name__}.{name}").install()
    except (AttributeError, ImportError) as error:
        raise MotoChanged(str(error)) from error
