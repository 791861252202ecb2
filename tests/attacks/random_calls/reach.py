"""What each actor may change and read, by names and tags: what docs/security.md and docs/iam.md
promise, said without the policies that are to hold it.

What can't be prevented, and isn't counted, is named in `NOT_COUNTED`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from terradask_modules.names import (
    bucket_name,
    network_state_key,
    secret_id,
    secrets_prefix,
    state_bucket_name,
)

from ...simulator.acting import ACCOUNT, REGION
from .snapshot import Change, Thing

#: What an attacker reaches all the same, and the words in docs/ that say so.
NOT_COUNTED = {
    "user reads the keys of every cluster that isn't private": (
        "iam.md",
        "In one workspace every user may attach to every cluster",
    ),
    "hosts that share their roles read all keys, also of private clusters": (
        "iam.md",
        "all clusters' hosts share two roles",
    ),
    "keys that a launched instance reads with a host's role: no launch is followed": (
        "iam.md",
        "may launch an instance from the workspace's template with user data of their own",
    ),
    "keys that a role of one's own reads: no role that was made is taken": (
        "iam.md",
        "roles of clusters that it makes can",
    ),
    "more hosts than a group had as its maximum, by those who may deploy groups": (
        "security.md",
        "a user with access who starts too many instances",
    ),
}

TAG_WORKSPACE, TAG_CLUSTER = "terradask:workspace", "terradask:cluster"


@dataclass(frozen=True)
class Actor:
    """Which rights act, and where.

    Parameters
    ----------
    role
        ``user``, ``ongoing``, ``scheduler``, ``worker``, or ``administrator``, who uses terradask.
    workspace
        The workspace.
    cluster
        The only cluster that is touched: an isolated host's own, or an administrator's object.
        None: any of the workspace.
    isolated
        Whether the workspace's clusters have roles, firewalls and templates of their own.
    private
        Names of secrets that are private to others.
    """

    role: str
    workspace: str
    cluster: str | None = None
    isolated: bool = False
    private: frozenset[str] = frozenset()

    @property
    def bucket(self) -> str:
        return bucket_name(self.workspace, ACCOUNT, REGION)

    @property
    def is_host(self) -> bool:
        return self.role in ("scheduler", "worker")

    def may_read(self, secret: str) -> bool:
        """Return whether the actor may see a secret's value."""
        own = secret.startswith(secrets_prefix(self.workspace))
        if self.cluster is not None:
            own = secret == secret_id(self.workspace, self.cluster)
        return own and self.role != "ongoing" and secret not in self.private


def forbidden(actor: Actor, change: Change) -> bool:
    """Return whether a change is none that an actor may make."""
    rule = _RULES.get(change.kind)
    return rule is None or not rule(actor, change)


def _owned(actor: Actor, change: Change) -> bool:
    """Return whether a thing carries the tags of the workspace, and of the cluster if it is one."""
    tags = change.tags
    if tags.get(TAG_WORKSPACE) != actor.workspace:
        return False
    return actor.cluster is None or tags.get(TAG_CLUSTER) == actor.cluster


def _group(actor: Actor, change: Change) -> bool:
    """Groups' limits, templates and tags: never by hosts; and never a minimum."""
    minimum = change.after is not None and change.after.content["MinSize"] > _minimum(change.before)
    return not actor.is_host and _is_named(actor, change) and not minimum


def _minimum(before: Thing | None) -> int:
    return 0 if before is None else int(before.content["MinSize"])


def _is_named(actor: Actor, change: Change) -> bool:
    prefix = f"terradask-{actor.workspace}-{actor.cluster or ''}"
    return change.name.startswith(prefix) and _owned(actor, change)


def _number(actor: Actor, change: Change) -> bool:
    if change.before and change.after and change.before.content == change.after.content:
        # Of its tags, which `_group` judges.
        return True
    return _is_named(actor, change) and (change.before is not None or not actor.is_host)


def _schedule(actor: Actor, change: Change) -> bool:
    if change.before and change.after and change.before.content == change.after.content:
        return True
    limits = change.after.content if change.after else {}
    harmless = limits.get("MinSize") in (None, 0) and limits.get("MaxSize") is None
    return actor.role != "worker" and _is_named(actor, change) and harmless


def _secret(actor: Actor, change: Change) -> bool:
    if actor.is_host or (change.name in actor.private and change.before is not None):
        # Where it isn't yet, it is no private cluster's: those who deploy may make it.
        return False
    if actor.role == "administrator" and not _owned(actor, change):
        # A name is not enough: it can be another's.
        return False
    if actor.cluster is not None:
        return change.name == secret_id(actor.workspace, actor.cluster)
    return change.name.startswith(secrets_prefix(actor.workspace))


def _object(actor: Actor, change: Change) -> bool:
    bucket, _, key = change.name.partition("/")
    if bucket == state_bucket_name(ACCOUNT, REGION):
        # Each plan of the network takes its lock.
        is_lock = key == f"{network_state_key(actor.workspace)}.tflock"
        return is_lock and actor.role in ("ongoing", "administrator")
    if bucket != actor.bucket:
        return False
    if actor.is_host:
        names = (
            "hosts/",
            *(
                ("closing.json", "scheduler.json", "environment")
                if actor.role == "scheduler"
                else ()
            ),
        )
        top, _, rest = key.partition("/")
        cluster, _, name = rest.partition("/")
        if top in ("environments", "reports"):
            # What outlives a cluster.
            is_within = actor.cluster in (None, cluster, cluster.removesuffix(".jobs"))
            kept = ("",) if top == "environments" else (".html.gz", ".json.gz")
            return actor.role == "scheduler" and is_within and name.endswith(kept)
        return top == "clusters" and actor.cluster in (None, cluster) and name.startswith(names)
    of = "" if actor.cluster is None else actor.cluster
    within = (
        f"clusters/{of}" + ("/" if of else ""),
        f"applied/clusters/{of}",
        "unlocks/",
        "accounts/",
        "history/",
    )
    is_events = key.startswith(f"reports/{of}") and key.endswith("/events.json")
    return key.startswith(within) or is_events


def _instance(actor: Actor, change: Change) -> bool:
    """Instances and what belongs to them: a host ends and raises those of groups alone."""
    return _owned(actor, change)


def _made_alone(actor: Actor, change: Change) -> bool:
    """Placement groups: people's, with a cluster's tag."""
    return not actor.is_host and _owned(actor, change) and TAG_CLUSTER in change.tags


def _of_isolated(actor: Actor, change: Change) -> bool:
    """Firewalls and templates that are clusters' own."""
    return actor.isolated and _made_alone(actor, change)


def _bounded(actor: Actor, change: Change) -> bool:
    """Roles that are clusters' own, within the boundary; and their profiles."""
    path = f"terradask/{actor.workspace}/terradask-{actor.workspace}.{actor.cluster or ''}"
    if actor.is_host or not actor.isolated or not change.name.startswith(path):
        return False
    if change.kind != "role" or change.after is None:
        return True
    boundary = change.after.content.get("PermissionsBoundary") or {}
    wanted = f":policy/terradask/{actor.workspace}/terradask-{actor.workspace}-hosts"
    return str(boundary.get("PermissionsBoundaryArn")).endswith(wanted)


def _log_stream(actor: Actor, change: Change) -> bool:
    """Log streams are hosts'; one of another cluster may be made, and stays empty."""
    group, _, stream = change.name.partition(":")
    within = actor.cluster is None or stream.startswith(f"{actor.cluster}/")
    empty = change.before is None and change.after is not None and change.after.content is None
    return actor.is_host and group == f"/terradask/{actor.workspace}" and (within or empty)


#: By kind; what is of another kind, no actor changes.
_RULES: dict[str, Callable[[Actor, Change], bool]] = {
    "group": _group,
    "number": _number,
    "schedule": _schedule,
    "secret": _secret,
    "object": _object,
    "instance": _instance,
    "volume": _instance,
    "network-interface": _instance,
    "placement-group": _made_alone,
    "launch-template": _of_isolated,
    "security-group": _of_isolated,
    "role": _bounded,
    "instance-profile": _bounded,
    "log stream": _log_stream,
}
