"""Where moto is looser than AWS, or lacks something: one file for each, with the reason.

Each module has ``install()``, which replaces moto's functions in place. moto's classes carry no
types that mypy follows here, so they are patched rather than subclassed.
"""

from __future__ import annotations

__all__ = ["install_all"]


def install_all(*, public_cidr: str) -> None:
    """Replace everything that needs to be replaced."""
    from terradask_simulator.aws.fidelity import (
        account_lookup,
        addresses,
        attached_interfaces,
        bucket_policies,
        clock,
        delete_markers,
        dependencies,
        embedded_metrics,
        endpoint_routes,
        gpu_images,
        group_api,
        group_launches,
        group_limits,
        group_schedules,
        iam_tags,
        image_disks,
        instance_index,
        instance_profiles,
        instance_types,
        launch_templates,
        launches,
        lingering,
        log_events,
        log_group_keys,
        metadata_tags,
        newer_regions,
        object_ranges,
        placement_groups,
        pricing,
        quotas,
        request_lookups,
        rule_descriptions,
        rule_ids,
        secret_versions,
        service_roles,
        session_tokens,
        simulated_policies,
        spot,
        subnet_ipv6,
        unsettled_buckets,
        visibility,
        young_buckets,
    )

    clock.install()
    account_lookup.install()
    addresses.install(public_cidr)
    attached_interfaces.install()
    bucket_policies.install()
    gpu_images.install()
    iam_tags.install()
    image_disks.install()
    instance_index.install()
    instance_profiles.install()
    instance_types.install()
    launch_templates.install()
    launches.install()
    lingering.install()
    log_events.install()
    embedded_metrics.install()
    log_group_keys.install()
    metadata_tags.install()
    newer_regions.install()
    object_ranges.install()
    group_launches.install()
    group_limits.install()
    group_schedules.install()
    group_api.install()
    delete_markers.install()
    dependencies.install()
    endpoint_routes.install()
    placement_groups.install()
    pricing.install()
    quotas.install()
    request_lookups.install()
    rule_descriptions.install()
    rule_ids.install()
    secret_versions.install()
    service_roles.install()
    session_tokens.install()
    simulated_policies.install()
    spot.install()
    subnet_ipv6.install()
    unsettled_buckets.install()
    visibility.install()
    young_buckets.install()
