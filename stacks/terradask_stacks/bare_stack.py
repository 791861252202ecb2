"""A stack without its resources, by which Terraform destroys all that the state has. Pure, and
without the framework: settings that stacks can't be made of any more don't keep one from being
destroyed.

From the state Terraform knows the order of deletions, and what the provider deletes by.
"""

from __future__ import annotations

from typing import Any

from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION, REQUIRED_TERRAFORM
from terradask_modules.kinds import KINDS
from terradask_modules.names import (
    NETWORK_STACK,
    ROLES,
    TAG_RUN_PREFIX,
    boundary_name,
    cluster_key,
    clusters_role_path,
    log_group_name,
    network_state_key,
)
from terradask_modules.where import Where
from terradask_stacks.settings import Settings, WorkspaceSettings

#: Type -> the last part of its address -> its name and path.
Blocks = dict[str, dict[str, dict[str, str]]]


def bare_stack(name: str, settings: Settings, where: Where) -> dict[str, Any]:
    """Return a stack's backend, provider and versions, as its synthesis has them."""
    if name == NETWORK_STACK:
        bucket = settings.state.bucket_for(where.account, where.region)
        key, kms_key_arn = network_state_key(where.workspace), settings.state.kms_key_arn
    else:
        bucket, key = where.bucket, cluster_key(name, "terraform.tfstate")
        kms_key_arn = settings.network.kms_key_arn
    return foundation(settings.workspace, bucket=bucket, key=key, kms_key_arn=kms_key_arn)


def foundation(
    workspace: WorkspaceSettings, *, bucket: str, key: str, kms_key_arn: str | None
) -> dict[str, Any]:
    """Return the backend, provider and versions of a stack whose state is at this place.

    They name the only account to work in, if there is one; how a caller gets into it is in no
    stack.
    """
    account = workspace.account
    allowed = {} if account is None else {"allowed_account_ids": [account]}
    backend = {
        **allowed,
        "bucket": bucket,
        # As the bucket would by itself: policies may demand that writes say so.
        "encrypt": True,
        "key": key,
        **({"kms_key_id": kms_key_arn} if kms_key_arn else {}),
        "region": workspace.region,
        # The provider knows the regions of its day; the SDK, which checks them first, knows newer.
        "skip_region_validation": True,
        "use_lockfile": True,
    }
    provider = {
        **allowed,
        "ignore_tags": [{"key_prefixes": [TAG_RUN_PREFIX]}],
        "region": workspace.region,
        "skip_region_validation": True,
    }
    return {
        "provider": {"aws": [provider]},
        "terraform": {
            "backend": {"s3": backend},
            "required_providers": {"aws": {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}},
            "required_version": REQUIRED_TERRAFORM,
        },
    }


def resources_to_find(settings: Settings, where: Where) -> Blocks:
    """Return the network's resources that AWS finds by their names alone, and those of kinds that
    only some networks have: with these settings, deployed or not.
    """
    network, workspace = settings.network, where.workspace
    prefix, role_path = network.role_name_prefix, network.role_path
    log_groups = {"hosts": {"name": log_group_name(workspace)}}
    roles: dict[str, dict[str, str]] = {}
    found: Blocks = {"aws_cloudwatch_log_group": log_groups, "aws_iam_role": roles}
    if network.instance_profiles is None:
        for role in ROLES:
            roles[role] = {"name": where.role_name(role, prefix), "path": role_path}
        found["aws_iam_instance_profile"] = dict(roles)
    if settings.workspace.isolation == "cluster" and not network.permissions_boundary:
        path = clusters_role_path(workspace, role_path)
        found["aws_iam_policy"] = {
            "boundary": {"name": boundary_name(workspace, prefix), "path": path}
        }
    for kind in KINDS.values():
        value = getattr(network, kind.setting) if kind.setting and kind.adopt else None
        if not value:
            continue
        names = {} if kind.names is None else kind.names(where, value)
        found[kind.terraform] = {key: {"name": name} for key, name in names.items()} or {"this": {}}
        if writer := kind.writer:
            log_groups[writer.name] = {"name": writer.log_group(workspace)}
            role = where.role_name(writer.name, prefix)
            roles[writer.name] = {"name": role, "path": role_path}
    return found
