"""Find settings of the network that differ from the deployed one, and the version that deployed it.
No calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from terradask._network.baseline import Baseline

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings

#: Settings that ``workspace.json`` has as they are.
_SAME = (
    *("public_workers", "public_schedulers", "session_manager", "allow_ingress_from_anywhere"),
    *("kms_key_arn", "container_repositories", "cluster_launch_templates"),
)


def unapplied_settings(settings: Settings, deployed: Baseline) -> list[str]:
    """Return the settings whose value isn't the deployed one, of those that clusters depend on."""
    network = settings.network
    found = [
        f"network.{name}" for name in _SAME if getattr(network, name) != getattr(deployed, name)
    ]
    pairs = {
        "network.nat": (network.nat, network.nat if deployed.nat == "given" else deployed.nat),
        "network.interface_endpoints": (
            sorted(network.interface_endpoints),
            sorted(deployed.interface_endpoints),
        ),
        "network.ingress": (
            *(
                [([*map(str, each.ports)], each.cidr, each.description) for each in rules]
                for rules in (network.ingress, deployed.ingress)
            ),
        ),
        "workspace.isolation": (settings.workspace.isolation, deployed.isolation),
    }
    return [*found, *(name for name, (wanted, is_now) in pairs.items() if wanted != is_now)]


def version_gap(deployed: Baseline, own: str) -> tuple[str, str] | None:
    """Return the network's version and the command that makes it and this one equal; None if they
    are.
    """
    if deployed.terradask_version == own:
        return None
    try:
        is_newer = Version(deployed.terradask_version) > Version(own)
    except InvalidVersion:
        is_newer = False
    command = "pip install --upgrade terradask" if is_newer else "terradask plan network"
    return deployed.terradask_version, command
