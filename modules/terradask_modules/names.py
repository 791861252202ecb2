"""The names of everything that terradask makes: one place, so that every part derives the same
ones.
"""

from __future__ import annotations

import hashlib
import re

WORKSPACE_PATTERN = r"^[a-z][a-z0-9-]{0,19}$"
#: No workspace has this name: its bucket would be that of the networks' states.
RESERVED_WORKSPACE = "state"
CLUSTER_PATTERN = r"^[a-z][a-z0-9-]{0,31}$"

#: Name of the network's stack; no cluster may take it.
NETWORK_STACK = "network"

TAG_PREFIX = "terradask:"
TAG_WORKSPACE = "terradask:workspace"
TAG_CLUSTER = "terradask:cluster"
#: On the secret of a private cluster: the SHA-256 of its ``cluster.json``.
TAG_DESCRIPTOR = "terradask:descriptor"
TAG_ROLE = "terradask:role"
TAG_GROUP = "terradask:group"
#: Tags under this prefix belong to a run, not to a stack: Terraform ignores them.
TAG_RUN_PREFIX = "terradask:run:"

ROLES = ("scheduler", "worker")

#: Where hosts' images have their root, which is a host's one volume.
ROOT_DEVICE = "/dev/xvda"
#: A cluster's own names of its groups; which of workers it has, for which markets, is a fact of the
#: cluster (`market_group`).
SCHEDULER_GROUP = "scheduler"
WORKER_GROUP = "workers"

#: Groups of workers that have names. Without hyphens: a group of AWS's is then named like no other
#: cluster's.
WORKER_GROUP_PATTERN = r"^[a-z][a-z0-9]{0,15}$"
WORKER_GROUPS_RESERVED = (SCHEDULER_GROUP, "schedulers", "worker", WORKER_GROUP, "spot", "zone")

WORKSPACE_KEY = "workspace.json"
#: What the keys of hosts' environments begin with.
ENVIRONMENTS = "environments/"

#: What the keys of runs' accounts begin with.
ACCOUNTS = "accounts/"

#: What the keys of notes begin with, of what was applied and destroyed.
HISTORY = "history/"

#: What the keys of runs' performance reports and events begin with, which outlive clusters.
REPORTS = "reports/"
#: What follows a cluster's name in the keys of its jobs' records, beside its reports: no cluster's
#: name has a dot.
JOBS = ".jobs/"
#: The name of a run's events beside its reports.
REPORTED_EVENTS = "events.json"

#: What the keys of named environments begin with. `setup` alone may write them.
SOFTWARE = "software/"

#: IAM's limit of 64 (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html),
#: less the longest prefix, 24.
_MAX_ROLE_NAME_CHARACTERS = 40

#: What a session with Session Manager may do: forward one port of the host. AWS's own document, in
#: every region.
SESSION_DOCUMENT = "AWS-StartPortForwardingSession"

#: Ports on which schedulers are open to workers everywhere.
SCHEDULER_PORTS = (8786, 8787)
#: The lowest port of a scheduler's own: hosts let their users bind from here on, which the unit's
#: file says too. Below it are the system's: SSH, names, leases of addresses.
LOWEST_PORT = 80
#: Ports that processes of hosts bind.
UNPRIVILEGED = (1024, 65535)


def bucket_name(workspace: str, account: str, region: str) -> str:
    """Return the name of a workspace's bucket."""
    return f"terradask-{workspace}-{account}-{region}"


def state_bucket_name(account: str, region: str) -> str:
    """Return the name of the bucket of the networks' states, where no setting names another: that
    of a workspace called `RESERVED_WORKSPACE`.
    """
    return bucket_name(RESERVED_WORKSPACE, account, region)


def network_state_key(workspace: str) -> str:
    """Return the key of a network's state in its bucket."""
    return f"workspaces/{workspace}/network.tfstate"


def resource_name(workspace: str, *parts: str) -> str:
    """Return the name of one of the workspace's resources."""
    return "-".join(("terradask", workspace, *parts))


def host_name(workspace: str, role: str, cluster: str | None = None) -> str:
    """Return the name of what makes a role's hosts what they are: templates, security groups; a
    workspace's, or one cluster's own.

    The dot keeps them apart: no name of a workspace or a cluster has one.
    """
    owner = workspace if cluster is None else f"{workspace}.{cluster}"
    return resource_name(owner, role)


def is_template_of(name: str, workspace: str, cluster: str) -> bool:
    """Return whether a launch template's name is one of the workspace's, or of the cluster's own:
    `host_name`, what is special about it, and the architecture. No other's can be the same: what is
    special is no role.
    """
    roles = "|".join(ROLES)
    kind = rf"-(?:{roles})(?:-(?!(?:{roles})\b)[a-z0-9]+)?(?:-arm64)?"
    owner = rf"{re.escape(workspace)}(?:\.{re.escape(cluster)})?"
    return re.fullmatch(f"terradask-{owner}{kind}", name) is not None


def group_name(workspace: str, cluster: str, group: str) -> str:
    """Return the name of an Auto Scaling group; ``group`` is the cluster's own name of it, such as
    ``workers``.
    """
    return resource_name(workspace, cluster, group)


def market_group(group: str, market: str) -> str:
    """Return the cluster's own name of the Auto Scaling group that has a group's hosts of one
    market, ``on-demand`` or ``spot``.
    """
    return f"{group}-spot" if market == "spot" else group


def is_group_key(key: str) -> bool:
    """Return whether a cluster can have an Auto Scaling group of this name of its own."""
    name = key.removesuffix("-spot")
    return key == SCHEDULER_GROUP or name == WORKER_GROUP or is_worker_group(name)


def is_worker_group(name: str) -> bool:
    """Return whether a group of workers may have this name in the settings."""
    return (
        re.fullmatch(WORKER_GROUP_PATTERN, name) is not None and name not in WORKER_GROUPS_RESERVED
    )


def secrets_prefix(workspace: str) -> str:
    """Return what the names of a workspace's secrets begin with."""
    return f"terradask/{workspace}/"


def secret_id(workspace: str, cluster: str) -> str:
    """Return the name of a cluster's secret."""
    return f"{secrets_prefix(workspace)}{cluster}"


def log_group_name(workspace: str) -> str:
    """Return the name of a workspace's CloudWatch log group."""
    return f"/terradask/{workspace}"


def role_name(workspace: str, role: str, prefix: str = "", cluster: str | None = None) -> str:
    """Return the name of a role and of its instance profile.

    ``prefix`` is what a company's rules put in front; `cluster` is given where the role is a
    cluster's own.
    """
    name = host_name(workspace, role, cluster)
    if len(name) > _MAX_ROLE_NAME_CHARACTERS:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: _MAX_ROLE_NAME_CHARACTERS - len(digest) - 1]}-{digest}"
    return f"{prefix}{name}"


def clusters_role_path(workspace: str, role_path: str = "/") -> str:
    """Return the path of the roles that are clusters' own: names of two workspaces may begin alike,
    these paths never do.
    """
    return f"{role_path}terradask/{workspace}/"


def boundary_name(workspace: str, prefix: str = "") -> str:
    """Return the name of the policy that bounds the rights of clusters' own roles; it lies under
    their path.
    """
    return f"{prefix}{resource_name(workspace, 'hosts')}"


def cluster_key(cluster: str, name: str) -> str:
    """Return the key of one of a cluster's objects in the workspace bucket."""
    return f"clusters/{cluster}/{name}"
