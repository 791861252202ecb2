"""What AWS says of quotas, of types' vCPUs, and of what runs in an account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed, listed_instances
from terradask._aws.tags import tags_of
from terradask._quotas.needs import Quota, vcpu_quota

#: AWS's maximum: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html
_INSTANCES_PER_CALL = 1000


def quota_limit(client: Any, quota: Quota) -> float | None:
    """Return the account's quota, or AWS's default if unchanged; None if AWS doesn't say."""
    for ask in (client.get_service_quota, client.get_aws_default_service_quota):
        with unless("NoSuchResourceException"):
            return float(ask(ServiceCode=quota.service, QuotaCode=quota.code)["Quota"]["Value"])
    return None


def vcpus_of(ec2: Any, types: Iterable[str]) -> dict[str, int]:
    """Return the vCPUs of those types that AWS knows in the region."""
    filters = [{"Name": "instance-type", "Values": sorted(types)}]
    described = listed(ec2, "describe_instance_types", "InstanceTypes", Filters=filters)
    return {one["InstanceType"]: int(one["VCpuInfo"]["DefaultVCpus"]) for one in described}


def running_beside(ec2: Any, own: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Count running instances that lack some tags, by type and market."""
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    found: Counter[tuple[str, str]] = Counter()
    paging = {"PageSize": _INSTANCES_PER_CALL}
    for instance in listed_instances(ec2, Filters=states, PaginationConfig=paging):
        if not own.items() <= tags_of(instance.get("Tags")).items():
            found[instance["InstanceType"], instance.get("InstanceLifecycle", "on-demand")] += 1
    return found


def vcpus_in_use(
    running: Mapping[tuple[str, str], int], vcpus: Mapping[str, int]
) -> Counter[Quota]:
    """Return what running instances take of each quota."""
    used: Counter[Quota] = Counter()
    for (instance_type, market), count in running.items():
        quota = vcpu_quota(instance_type, market)
        if quota is not None:
            used[quota] += count * vcpus.get(instance_type, 0)
    return used
