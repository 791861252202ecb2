"""Where moto is looser than AWS, or lacks something: a file for each subject, with the reasons.

Each of these modules has ``install()``, which replaces moto's functions in place.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["install_all"]

_MODULES = (
    "clock",
    "lookups",
    "networks",
    "buckets",
    "images",
    "identities",
    "instance_types",
    "launch_templates",
    "launches",
    "slow_instances",
    "log_events",
    "embedded_metrics",
    "group_launches",
    "group_limits",
    "group_schedules",
    "group_api",
    "placement_groups",
    "pricing",
    "quotas",
    "secret_versions",
    "session_tokens",
    "simulated_policies",
    "spot",
)


def install_all(*, public_cidr: str) -> None:
    """Replace everything that needs to be replaced."""
    from terradask_simulator.aws.fidelity import addresses

    addresses.install(public_cidr)
    for name in _MODULES:
        import_module(f"{__name__}.{name}").install()
