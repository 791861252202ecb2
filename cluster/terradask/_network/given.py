"""Check given resources before a plan, with all problems at once, and changes that would remove
resources of deployed clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from terradask_modules.names import ROLES, bucket_name
from terradask_stacks.errors import Finding, SettingsError

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.baseline import Baseline
    from terradask_stacks.settings import NetworkSettings, Settings


def check_given(settings: Settings, aws: Aws) -> list[Finding]:
    """Check the given resources in the settings against AWS.

    Raises `SettingsError`.

    Permissions needed: those of `describe_given`.
    """
    from terradask._network.given_destinations import destination_findings
    from terradask._network.given_facts import describe_given
    from terradask._network.given_firewall import firewall_findings
    from terradask._network.given_identity import identity_findings
    from terradask._network.given_network import LikelyFinding, network_findings

    if not _gives(settings.network):
        return []
    facts = describe_given(settings, aws)
    found = [
        *network_findings(settings, facts),
        *firewall_findings(settings, facts),
        *destination_findings(settings, facts, aws.account_id),
        *identity_findings(settings, facts),
    ]
    errors = [finding for finding in found if not isinstance(finding, LikelyFinding)]
    if errors:
        raise SettingsError(errors)
    if facts.denied:
        found.append(
            LikelyFinding(
                where="network",
                problem="some given resources couldn't be checked: AWS refused "
                + ", ".join(facts.denied),
                advice=(
                    "allow callers who plan the network to call these, so that mistakes show "
                    "before they are applied"
                ),
            )
        )
    return found


def _gives(network: NetworkSettings) -> bool:
    # An image alone is checked where it is resolved.
    return any(
        (
            network.vpc_id,
            network.instance_profiles,
            network.permissions_boundary,
            network.kms_key_arn,
            network.all_egress,
            network.routes,
        )
    )


# ---- changes of a deployed network: none may remove resources of clusters ------------------------


def check_change(settings: Settings, aws: Aws) -> None:
    """Refuse settings that would remove resources of deployed clusters.

    Raises `SettingsError`.

    Permissions needed: ``s3:GetObject`` on ``workspace.json``; ``s3:ListBucket`` after a change was
    found.
    """
    from terradask._network.baseline import read_baseline
    from terradask._network.deployed import listed_clusters
    from terradask.errors import BaselineError

    bucket = bucket_name(settings.workspace.name, aws.account_id, aws.region)
    try:
        baseline = read_baseline(aws, bucket)
    except BaselineError:
        return
    replaced = {
        f"network.{name}": found
        for name, found in replaced_settings(settings.network, baseline).items()
    }
    if baseline.isolation == "cluster" and settings.workspace.isolation == "workspace":
        replaced["workspace.isolation"] = "security groups for hosts of isolated clusters"
    clusters = listed_clusters(aws, bucket).names if replaced else ()
    if clusters:
        raise SettingsError(
            [
                _change_finding(setting, settings, found, clusters)
                for setting, found in replaced.items()
            ]
        )


def replaced_settings(network: NetworkSettings, baseline: Baseline) -> dict[str, str]:
    """Return the network settings that would replace clusters' resources: setting -> deployed
    value.

    A given security group or profile that is replaced stays in the account, and running
    hosts keep it; the network's own would be destroyed.
    """
    replaced = {}
    if (network.vpc_id or "") != (baseline.vpc_id if "vpc" in baseline.given else ""):
        replaced["vpc_id"] = (
            baseline.vpc_id if "vpc" in baseline.given else f"a VPC of its own, {baseline.vpc_id}"
        )
    if network.security_groups is not None and "security_groups" not in baseline.given:
        replaced["security_groups"] = "security groups of its own"
    gone = sorted(
        baseline.architectures
        - set(baseline.architectures if network.architectures is None else network.architectures)
    )
    if gone:
        replaced["architectures"] = f"launch templates for {', '.join(gone)}"
    if "instance_profiles" in baseline.given:
        return replaced
    if network.instance_profiles is not None:
        replaced["instance_profiles"] = "roles of its own"
        return replaced
    where = baseline.where
    names = {role: where.role_name(role, network.role_name_prefix) for role in ROLES}
    expected = {
        role: where.iam_arn(f"role{network.role_path}{name}") for role, name in names.items()
    }
    if baseline.roles != expected:
        wrong = (
            "role_name_prefix"
            if set(baseline.instance_profiles.values()) != set(names.values())
            else "role_path"
        )
        replaced[wrong] = ", ".join(baseline.roles.values())
    return replaced


def _change_finding(
    setting: str, settings: Settings, deployed: str, clusters: Iterable[str]
) -> Finding:
    names = sorted(clusters)
    section, _, name = setting.partition(".")
    value = getattr(getattr(settings, section), name)
    return Finding(
        where=setting,
        problem=f"the network is deployed with {deployed}; a change would remove it from "
        f"{', '.join(names)}, which use{'s' if len(names) == 1 else ''} it",
        given="unset"
        if value is None
        else value
        if isinstance(value, str | list)
        else value.model_dump(),
        allowed="the deployed value, while clusters are deployed",
        advice=f"destroy them first ({'; '.join(f'terradask destroy {name}' for name in names)}), "
        "or make another workspace (workspace.name) beside this one",
    )
