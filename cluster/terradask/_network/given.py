"""Given resources, checked before anything is planned: everything that is wrong at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask_stacks.errors import Finding, SettingsError

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import NetworkSettings, Settings


def check_given(settings: Settings, aws: Aws) -> list[Finding]:
    """Check what the settings name as given against AWS.

    Raises `SettingsError`.

    Permissions needed: those of `describe_given`.
    """
    from terradask._network.given_facts import describe_given
    from terradask._network.given_firewall import firewall_findings
    from terradask._network.given_identity import identity_findings
    from terradask._network.given_network import LikelyFinding, network_findings

    if not _gives(settings.network):
        return []
    facts = describe_given(settings.network, aws)
    found = [
        *network_findings(settings, facts),
        *firewall_findings(settings, facts),
        *identity_findings(settings, facts),
    ]
    errors = [finding for finding in found if not isinstance(finding, LikelyFinding)]
    if errors:
        raise SettingsError(errors)
    if facts.denied:
        found.append(
            LikelyFinding(
                where="network",
                problem="some of what is given couldn't be checked: AWS refused "
                + ", ".join(facts.denied),
                advice=(
                    "allow callers who plan the network to call these, so that mistakes show "
                    "before they are applied"
                ),
            )
        )
    return found


def _gives(network: NetworkSettings) -> bool:
    # An image alone is looked at where it is resolved.
    return any(
        (
            network.vpc_id,
            network.instance_profiles,
            network.permissions_boundary,
            network.kms_key_arn,
        )
    )
