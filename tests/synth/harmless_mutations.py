"""Mutations that no check finds, each with the reason why that does no harm."""

from __future__ import annotations

import re

_POLICY = (
    r"resource\.aws_(iam_role_policy|iam_policy|iam_role|secretsmanager_secret|s3_bucket_policy)"
)

#: Reason -> patterns of what is changed, of which part, and how.
HARMLESS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "A label or a description: no access depends on it": (
        (r".*", r"(.*\.)?tags(\.(?!terradask:).*)?", "added to|removed|made foreign|widened"),
        (r"resource\.aws_autoscaling_group", r"tag\[\]\.value", "widened|made foreign"),
        (r".*", r"description|.*: (.*\.)?Sid", ".*"),
        (r".*", r"content: (terradask_version|given|description)", ".*"),
    ),
    "A resource is gone: nothing is opened, and Terraform refuses it where others refer to it": (
        (r"resource\..*", r"", "removed"),
        (r"data\..*", r"", "removed"),
    ),
    "The same is read once more": ((r"data\..*", r"", "copied"),),
    "Less is allowed": (
        (_POLICY, r".*policy: Statement(\.\[\])?", "removed"),
        (_POLICY, r".*policy: Statement\.\[\]\.Effect", "turned"),
        (_POLICY, r".*policy: Statement\.\[\]\.(Action|Resource)(\.\[\])?", "removed"),
        (_POLICY, r".*policy: Statement\.\[\]\.Condition\..*\.\[\]", "removed"),
        (_POLICY, r"policy: aws:ResourceTag.*", "made foreign"),
        (r"resource\.aws_launch_template", r"iam_instance_profile\.(arn|name)", "removed"),
        (r"resource\.aws_vpc_security_group_egress_rule", r"cidr_ipv4", "moved"),
    ),
    "The same principals are named in another order": (
        (r"resource\.aws_secretsmanager_secret", r"policy", "pointed elsewhere"),
        (r"resource\.aws_s3_bucket_policy", r".*Statement\.\[\](\.Principal)?", "opened|widened"),
    ),
    "No policy of ours uses variables, all that the language's version decides": (
        (_POLICY, r"policy: Version", ".*"),
    ),
    "Terraform, its provider or AWS refuses it": (
        (r".*", r".*depends_on.*", "made foreign|extended"),
        (r"resource\.aws_vpc_security_group_(in|e)gress_rule", r"(cidr|ref|prefix).*", "removed"),
        (r"resource\.aws_vpc_security_group_egress_rule", r"cidr.*", "made foreign"),
        (_POLICY, r".*policy: (.*\.)?Effect", "removed|made foreign|widened"),
        (r"resource\.aws_s3_object", r"content: (Effect|lock)", "made foreign|widened"),
        (r"resource\.aws_route", r".*", "removed|made foreign"),
        (r"resource\.aws_s3_object", r"source|content", "removed"),
        (r"resource\.aws_launch_template", r".*(volume_size|throughput)", "made foreign|widened"),
        (r"resource\.aws_autoscaling_group", r"vpc_zone_identifier.*", "extended|made foreign"),
        (r"resource\.aws_vpc_endpoint", r"subnet_ids.*", "made foreign|extended|emptied"),
    ),
    "Only the order of creation: new buckets are closed before as well": (
        (r".*", r".*depends_on.*", "removed|emptied"),
    ),
    "Sizes and types of machines: `policy.max_hourly_cost_usd` limits them": (
        (r"resource\.aws_launch_template", r".*\.ebs\.(volume_size|iops|throughput)", ".*"),
        (r"resource\.aws_autoscaling_group", r".*instance_type", "made foreign"),
        (r"resource\.aws_autoscaling_group", r".*allocation_strategy|placement_group", "removed"),
    ),
    "A way is missing, or leads through another zone: hosts reach less, or pay for it": (
        (r"resource\.aws_vpc_endpoint", r".*", "removed|emptied|pointed elsewhere"),
        (r"resource\.aws_route", r"nat_gateway_id", "pointed elsewhere"),
        (r"resource\.aws_(subnet|vpc)", r".*ipv6.*", "removed"),
        (r"resource\.aws_launch_template", r".*public_ip_address", "widened"),
    ),
    "Within what the settings let in: everybody, by `network.allow_ingress_from_anywhere`": (
        (r"resource\.aws_vpc_security_group_ingress_rule", r"cidr_ipv4", "moved"),
    ),
    "A cluster's own options, which its settings may say": (
        (r"resource\.aws_s3_object", r"content: (settings|scheduler|worker|zone)\b.*", ".*"),
        (r"resource\.aws_s3_object", r"content: groups\.\[\]\..*", ".*"),
    ),
    "Facts for display and for the choice of zones; each plan's rules are checked by themselves": (
        (
            r"resource\.aws_s3_object",
            r"content: (interface_endpoints|ports|cidr|\w+_cidr|role_name_prefix)",
            "made foreign",
        ),
        (r"resource\.aws_s3_object", r"source_hash", "removed"),
    ),
    "Terraform's own checks of what it reads and makes; a plan doesn't show them": (
        (r"resource\.aws_iam_role_policy", r"lifecycle.*", ".*"),
        (r"data\..*|resource\.aws_(autoscaling_group|internet_gateway)", r"lifecycle.*", ".*"),
    ),
    "A role's path grants nothing": ((r"resource\.aws_iam_.*", r"path", "removed"),),
    "The bucket encrypts by itself": ((r"terraform\.backend", r"s3\.(encrypt|kms.*)", "removed"),),
}


def harmless_because(of: str, part: str, kind: str) -> str | None:
    """Return why a mutation does no harm; None if nothing says so."""
    for reason, patterns in HARMLESS.items():
        if any(all(map(re.fullmatch, pattern, (of, part, kind))) for pattern in patterns):
            return reason
    return None
