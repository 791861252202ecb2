"""Derive the scope of callers' rights from settings, for `terradask_modules.caller_policies`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from terradask._network.task_policies import read_task_policies
from terradask_modules.caller_policies import CallerScope
from terradask_modules.errors import InvalidInput
from terradask_modules.kinds import KINDS
from terradask_modules.names import network_state_key

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import NetworkSettings, Settings

_ACCOUNT = re.compile(r"[0-9]{12}")


def caller_scope(
    settings: Settings, aws: Aws, *, account: str | None = None, for_boundary: bool = False
) -> CallerScope:
    """Return the scope of the rights of a workspace's callers; for a boundary, with what managed
    policies of tasks allow.

    Raises `InvalidInput`, `SettingsError`.

    Permissions needed: ``iam:GetInstanceProfile`` on given instance profiles; for a boundary,
    ``iam:GetPolicy`` and ``iam:GetPolicyVersion`` on managed policies of tasks; without those,
    none.
    """
    if account is not None and not _ACCOUNT.fullmatch(account):
        raise InvalidInput(
            "this is not an AWS account number", given=account, allowed="twelve digits"
        )
    account = account or aws.account_id
    region, state, network = settings.workspace.region, settings.state, settings.network
    groups = network.security_groups
    profiles, roles = _given_identity(network, aws)
    return CallerScope(
        hosts=network.hosts(
            settings.workspace.where(account),
            read_task_policies(settings, aws) if for_boundary else {},
        ),
        role_path=network.role_path,
        role_name_prefix=network.role_name_prefix,
        permissions_boundary=network.permissions_boundary,
        given_roles=roles,
        given_profiles=profiles,
        given_vpc=network.vpc_id,
        given_subnets=_distinct(
            subnet for zone in network.subnets.values() for subnet in (zone.scheduler, zone.worker)
        ),
        given_security_groups=_distinct((groups.scheduler, groups.worker))
        if groups is not None
        else (),
        interface_endpoints=bool(network.interface_endpoints),
        egress=bool(network.all_egress or network.routes),
        session_manager=network.session_manager,
        settings=frozenset(
            kind.setting
            for kind in KINDS.values()
            if kind.setting and getattr(network, kind.setting)
        ),
        isolated=settings.workspace.isolation == "cluster",
        own_templates=network.cluster_launch_templates,
        private_clusters=_private_clusters(settings),
        network_state="/".join(
            (state.bucket_for(account, region), network_state_key(settings.workspace.name))
        ),
        network_state_owner=state.owner_for(account),
        state_key_arn=state.kms_key_arn,
    )


def _given_identity(network: NetworkSettings, aws: Aws) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ARNs of given instance profiles, and of the roles in them."""
    given = network.instance_profiles
    if given is None:
        return (), ()
    client = aws.client("iam")
    found = [
        client.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
        for name in (given.scheduler, given.worker)
    ]
    roles = _distinct(role["Arn"] for profile in found for role in profile["Roles"])
    return _distinct(profile["Arn"] for profile in found), roles


def _private_clusters(settings: Settings) -> tuple[str, ...]:
    """Return the declared private clusters; ``*`` if undeclared ones are private."""
    if settings.cluster.private_to_creator:
        return ("*",)
    clusters = settings.clusters.items()
    return tuple(sorted(name for name, cluster in clusters if cluster.private_to_creator))


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
