"""The names of everything that terradask makes: one place, so that every part derives the same ones."""

from __future__ import annotations

WORKSPACE_PATTERN = r"^[a-z][a-z0-9-]{0,19}$"
CLUSTER_PATTERN = r"^[a-z][a-z0-9-]{0,31}$"

#: Name of the network's stack; no cluster may take it.
NETWORK_STACK = "network"

TAG_PREFIX = "terradask:"
TAG_WORKSPACE = "terradask:workspace"
TAG_CLUSTER = "terradask:cluster"
TAG_ROLE = "terradask:role"
TAG_GROUP = "terradask:group"
#: Tags under this prefix belong to a run, not to a stack: Terraform ignores them.
TAG_RUN_PREFIX = "terradask:run:"

ROLES = ("scheduler", "worker")
GROUPS = ("scheduler", "workers")
ROLE_OF_GROUP = {"scheduler": "scheduler", "workers": "worker"}

WORKSPACE_KEY = "workspace.json"

#: Ports on which a scheduler may listen for its workers: the firewall is the workspace's, the ports a cluster's.
SCHEDULER_PORTS = (8786, 8787)


def bucket_name(workspace: str, account: str, region: str) -> str:
    """Return the name of a workspace's bucket."""
    return f"terradask-{workspace}-{account}-{region}"


def resource_name(workspace: str, *parts: str) -> str:
    """Return the name of one of the workspace's resources."""
    return "-".join(("terradask", workspace, *parts))


def group_name(workspace: str, cluster: str, group: str) -> str:
    """Return the name of an Auto Scaling group; ``group`` is ``scheduler`` or ``workers``."""
    return resource_name(workspace, cluster, group)


def secrets_prefix(workspace: str) -> str:
    """Return what the names of a workspace's secrets begin with."""
    return f"terradask/{workspace}/"


def secret_id(workspace: str, cluster: str) -> str:
    """Return the name of a cluster's secret."""
    return f"{secrets_prefix(workspace)}{cluster}"


def log_group_name(workspace: str) -> str:
    """Return the name of a workspace's CloudWatch log group."""
    return f"/terradask/{workspace}"


def flow_log_group_name(workspace: str) -> str:
    """Return the name of the CloudWatch log group of a workspace's VPC flow logs."""
    return f"{log_group_name(workspace)}/flow-logs"


def role_name(workspace: str, role: str, prefix: str = "") -> str:
    """Return the name of a role and of its instance profile; ``prefix`` is what a company's rules put in front."""
    return f"{prefix}{resource_name(workspace, role)}"


def cluster_key(cluster: str, name: str) -> str:
    """Return the key of one of a cluster's objects in the workspace bucket."""
    return f"clusters/{cluster}/{name}"
