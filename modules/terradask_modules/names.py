"""The names of all resources: one place, so that every part derives the same ones."""

from __future__ import annotations

import hashlib
import re

WORKSPACE_PATTERN = r"^[a-z][a-z0-9-]{0,19}$"
#: Reserved: this workspace's bucket would be that of the networks' states.
RESERVED_WORKSPACE = "state"
CLUSTER_PATTERN = r"^[a-z][a-z0-9-]{0,31}$"
#: Of an offer: behind `OFFER_STACK_PREFIX` it names a stack.
OFFER_PATTERN = r"^[a-z][a-z0-9-]{0,25}$"
OFFER_STACK_PREFIX = "offer-"

#: Name of the network's stack; no cluster may take it.
NETWORK_STACK = "network"

TAG_PREFIX = "terradask:"
TAG_WORKSPACE = "terradask:workspace"
TAG_CLUSTER = "terradask:cluster"
#: On the secret of a private cluster: the SHA-256 of its ``cluster.json``.
TAG_DESCRIPTOR = "terradask:descriptor"
TAG_ROLE = "terradask:role"
TAG_GROUP = "terradask:group"
#: Of instances of a group with a warm pool: the name of the group, and of its launch hook.
TAG_WARM_POOL = "terradask:warm-pool"
#: Tags under this prefix belong to a run, not to a stack: Terraform ignores them.
TAG_RUN_PREFIX = "terradask:run:"

ROLES = ("scheduler", "worker")

#: Root device of hosts' images, a host's only volume.
ROOT_DEVICE = "/dev/xvda"
#: A cluster's own names of its groups; its groups of workers and markets are its own facts
#: (`market_group`).
SCHEDULER_GROUP = "scheduler"
WORKER_GROUP = "workers"

#: Groups of workers that have names. Without hyphens, so that an AWS group's name is unique to its
#: cluster.
WORKER_GROUP_PATTERN = r"^[a-z][a-z0-9]{0,15}$"
WORKER_GROUPS_RESERVED = (SCHEDULER_GROUP, "schedulers", "worker", WORKER_GROUP, "spot", "zone")

WORKSPACE_KEY = "workspace.json"
#: Key prefix of hosts' environments.
ENVIRONMENTS = "environments/"

#: The network's own scripts for hosts, by their names in ``host.json``.
HOST_SCRIPTS = ("setup", "leave")
#: Key prefix of these; the SHA-256 follows.
HOST_SCRIPT_PREFIX = "host/scripts/"

#: The value of `TAG_ROLE` on instances that become images, on these and on their snapshots; what
#: the tags that describe an image begin with. Hosts know the first two: `terradask_host.image`.
IMAGE_ROLE = "image"
TAG_IMAGE_RECIPE = "terradask:image:recipe"
TAG_IMAGE_PREFIX = "terradask:image:"
#: Key prefixes of recipes, by their SHA-256, and of what such instances report: no cluster can have
#: this name.
IMAGE_RECIPES = "host/images/"
IMAGE_REPORTS = "clusters/_images/hosts/"

#: The workspace's limits for hosts, which don't read ``workspace.json``.
LIMITS_KEY = "host/limits.json"
LIMITS_FORMAT = 1

#: Key prefix of networks' states, in their bucket.
NETWORK_STATES = "workspaces/"

#: Key prefix of runs' accounts, and the name of all clusters' starts beside them.
ACCOUNTS = "accounts/"
STARTING = "starting.json"

#: Key prefix of the history of applies and destroys.
HISTORY = "history/"

#: Key prefix of runs' performance reports and events, which outlive clusters.
REPORTS = "reports/"
#: Suffix of a cluster's name in the keys of its jobs' records: no cluster's name has a dot.
JOBS = ".jobs/"
#: The name of a run's events beside its reports.
REPORTED_EVENTS = "events.json"

#: Key prefix of named environments. Only `setup` may write them.
SOFTWARE = "software/"

#: IAM's limit less the longest prefix, 24. AWS (iam-sizes)
_MAX_ROLE_NAME_CHARACTERS = 40

#: AWS (documented): Session Manager's document AWS-StartPortForwardingSession forwards one port of
#: the host.
#: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-working-with-sessions-start.html
SESSION_DOCUMENT = "AWS-StartPortForwardingSession"

#: Ports on which schedulers are always open to workers.
SCHEDULER_PORTS = (8786, 8787)
#: The lowest port of a scheduler's own: hosts let their users bind from here on, as in the unit's
#: file. Below it are the system's: SSH, names, leases of addresses.
LOWEST_PORT = 80
#: Ports that processes of hosts bind.
UNPRIVILEGED = (1024, 65535)


def bucket_name(workspace: str, account: str, region: str) -> str:
    """Return the name of a workspace's bucket."""
    return f"terradask-{workspace}-{account}-{region}"


def state_bucket_name(account: str, region: str) -> str:
    """Return the default name of the bucket of the networks' states."""
    return bucket_name(RESERVED_WORKSPACE, account, region)


def network_state_key(workspace: str) -> str:
    """Return the key of a network's state in its bucket."""
    return f"{NETWORK_STATES}{workspace}/network.tfstate"


def resource_name(workspace: str, *parts: str) -> str:
    """Return the name of one of the workspace's resources."""
    return "-".join(("terradask", workspace, *parts))


def host_name(workspace: str, role: str, cluster: str | None = None) -> str:
    """Return the name of a role's templates and security groups, of a workspace or one cluster.

    The dot separates them: no name of a workspace or a cluster has one.
    """
    owner = workspace if cluster is None else f"{workspace}.{cluster}"
    return resource_name(owner, role)


def is_template_of(name: str, workspace: str, cluster: str) -> bool:
    """Return whether a launch template's name is one of the workspace's, or of the cluster's own.

    It consists of `host_name`, a special part, and the architecture. It is unique, because the
    special part is never a role.
    """
    roles = "|".join(ROLES)
    kind = rf"-(?:{roles})(?:-(?!(?:{roles})\b)[a-z0-9]+)?(?:-arm64)?"
    owner = rf"{re.escape(workspace)}(?:\.{re.escape(cluster)})?"
    return re.fullmatch(f"terradask-{owner}{kind}", name) is not None


def group_name(workspace: str, cluster: str, group: str) -> str:
    """Return the name of an Auto Scaling group from the cluster's own name of it."""
    return resource_name(workspace, cluster, group)


def market_group(group: str, market: str) -> str:
    """Return the cluster's own name of the Auto Scaling group for a group's market."""
    return f"{group}-spot" if market == "spot" else group


def is_group_key(key: str) -> bool:
    """Return whether a cluster's own name of an Auto Scaling group is valid."""
    name = key.removesuffix("-spot")
    return key == SCHEDULER_GROUP or name == WORKER_GROUP or is_worker_group(name)


def is_worker_group(name: str) -> bool:
    """Return whether a group of workers may have this name in the settings."""
    return (
        re.fullmatch(WORKER_GROUP_PATTERN, name) is not None and name not in WORKER_GROUPS_RESERVED
    )


def secrets_prefix(workspace: str) -> str:
    """Return the prefix of a workspace's secrets' names."""
    return f"terradask/{workspace}/"


def secret_id(workspace: str, cluster: str) -> str:
    """Return the name of a cluster's secret."""
    return f"{secrets_prefix(workspace)}{cluster}"


def log_group_name(workspace: str) -> str:
    """Return the name of a workspace's CloudWatch log group."""
    return f"/terradask/{workspace}"


def role_name(workspace: str, role: str, prefix: str = "", cluster: str | None = None) -> str:
    """Return the name of a role and of its instance profile.

    `prefix` is a company's; `cluster` is given if the role is a cluster's own.
    """
    name = host_name(workspace, role, cluster)
    if len(name) > _MAX_ROLE_NAME_CHARACTERS:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: _MAX_ROLE_NAME_CHARACTERS - len(digest) - 1]}-{digest}"
    return f"{prefix}{name}"


def clusters_role_path(workspace: str, role_path: str = "/") -> str:
    """Return the path of clusters' own roles, unique to the workspace; names may share prefixes."""
    return f"{role_path}terradask/{workspace}/"


def boundary_name(workspace: str, prefix: str = "") -> str:
    """Return the name of the policy that bounds clusters' own roles; it is under their path."""
    return f"{prefix}{resource_name(workspace, 'hosts')}"


def cluster_key(cluster: str, name: str) -> str:
    """Return the key of one of a cluster's objects in the workspace bucket."""
    return f"clusters/{cluster}/{name}"
