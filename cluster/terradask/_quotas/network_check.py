"""AWS's quotas of what a network's plan makes, before any of it bills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from terradask._aws.listing import listed
from terradask._quotas.facts import quota_limit
from terradask._quotas.needs import ADDRESSES, VPCS, Quota
from terradask.errors import AccessDenied, QuotaExceeded

if TYPE_CHECKING:
    from terradask._aws.session import Aws

#: Type of resource -> its quota, and how EC2 lists what the account has.
_COUNTED: dict[str, tuple[Quota, str, str]] = {
    "aws_eip": (ADDRESSES, "describe_addresses", "Addresses"),
    "aws_vpc": (VPCS, "describe_vpcs", "Vpcs"),
}


def check_network_quotas(aws: Aws, creates: Iterable[str], warn: Callable[[str], None]) -> None:
    """Refuse a plan that would exceed a quota halfway. Raises `QuotaExceeded`.

    AWS is asked only about what is created: two or three calls each. Permissions needed:
    ``servicequotas:GetServiceQuota``, ``GetAWSDefaultServiceQuota``, ``ec2:DescribeAddresses``,
    ``DescribeVpcs``. Without them nothing is refused.

    Parameters
    ----------
    aws
        The account and region.
    creates
        Addresses of the resources that the plan creates.
    warn
        Takes why something wasn't checked.
    """
    kinds = Counter(address.partition(".")[0] for address in creates)
    short = []
    for kind, (quota, method, key) in _COUNTED.items():
        if not kinds[kind]:
            continue
        try:
            limit = quota_limit(aws.client("service-quotas"), quota)
            in_use = len(list(listed(aws.client("ec2"), method, key)))
        except AccessDenied as error:
            warn(f"AWS's quota of {quota.name} is not checked: this caller lacks {error.action}")
            continue
        if limit is not None and in_use + kinds[kind] > limit:
            short.append((quota, int(limit), in_use, kinds[kind]))
    if short:
        raise _refusal(aws.region, short)


def _refusal(region: str, short: list[tuple[Quota, int, int, int]]) -> QuotaExceeded:
    commands = [
        f"aws service-quotas request-service-quota-increase --region {region} --service-code "
        f"{quota.service} --quota-code {quota.code} --desired-value {in_use + needed}"
        for quota, _, in_use, needed in short
    ]
    fewer = "fewer network.zones, or network.nat = 'single'; " if _has_addresses(short) else ""
    return QuotaExceeded(
        f"the network needs more than AWS lets this account have in {region}",
        given="; ".join(
            f"{quota.name}, {quota.code}, is {limit}, of which {in_use} are in use; {needed} are "
            "needed"
            for quota, limit, in_use, needed in short
        ),
        quotas=[
            {
                "service": quota.service,
                "code": quota.code,
                "name": quota.name,
                "limit": limit,
                "in_use": in_use,
                "needed": needed,
            }
            for quota, limit, in_use, needed in short
        ],
        advice=f"{fewer}release what isn't used, or request more: {'; '.join(commands)}",
    )


def _has_addresses(short: list[tuple[Quota, int, int, int]]) -> bool:
    return any(quota == ADDRESSES for quota, *_ in short)
