"""An administrator of the whole account who uses terradask on a cluster that is attacked."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from terradask import Workspace
from terradask.errors import TerradaskError
from terradask_modules.names import bucket_name, secret_id
from terradask_simulator.iam import LoggedRequest

from ...simulator.acting import ACCOUNT, REGION
from .reach import TAG_CLUSTER, TAG_WORKSPACE
from .snapshot import Snapshot

EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
_OFTEN = ("list", "status", "start", "stop", "sweep")
_SELDOM = ("destroy", "plan", "repair")
#: Reading what would be a harm all the same.
_SECRETS = ("secretsmanager:GetSecretValue",)
_NAMED = {
    "group": re.compile(r"autoScalingGroupName/(.+)$"),
    "secret": re.compile(r":secret:(.+)-[\w?]{6}$"),
}
_READS = ("Describe", "Get", "Head", "List", "Simulate")


@dataclass(frozen=True)
class Command:
    """A command, and the cluster that it is about; None: the workspace's strays."""

    name: str
    cluster: str | None
    run: Callable[[], object]

    def ending(self) -> str:
        """Run it; return how it ended: done, or one of terradask's own errors."""
        try:
            self.run()
        except TerradaskError as error:
            return type(error).__name__
        return "done"


class Administrator:
    """Uses a workspace in any order, loaded anew for each command, as processes do."""

    def __init__(self, load: Callable[[], Workspace], draws: random.Random) -> None:
        self._load, self._draws = load, draws

    def any_command(self, cluster: str, *, seldom: bool) -> Command:
        """Return a command on a cluster; `seldom` one of those that take Terraform."""
        return self.command(self._draws.choice(_SELDOM if seldom else _OFTEN), cluster)

    def command(self, name: str, cluster: str) -> Command:
        """Return a command on a cluster, or on the whole workspace, by its name."""
        load = self._load
        commands: dict[str, Callable[[], object]] = {
            "list": lambda: load().overview(),
            "status": lambda: (
                load().deployment(cluster).status(),
                load().deployment(cluster).events(),
            ),
            "start": lambda: load().deployment(cluster).start(n_workers=1, check_quotas=False),
            "stop": lambda: load().deployment(cluster).stop(),
            "sweep": lambda: load().sweep(grace_seconds=0),
            "destroy": lambda: load().destroy_cluster(cluster),
            "plan": lambda: load().plan_cluster(cluster),
            "repair": lambda: load().repair_state(cluster),
        }
        return Command(name, None if name == "sweep" else cluster, commands[name])


def foreign_calls(
    requests: list[LoggedRequest], before: Snapshot, workspace: str, cluster: str | None
) -> Iterator[str]:
    """Yield the calls of a command that change, or read keys of, what isn't its cluster's: by name,
    and groups and secrets also by the tags that they carried before it.
    """
    own = _own_resources(workspace, cluster)
    for one in requests:
        _, _, verb = one.request.action.partition(":")
        if verb.startswith(_READS) and one.request.action not in _SECRETS:
            continue
        resource = one.request.resource
        tags = _tags_before(resource, before)
        is_own = own.search(resource) and (tags is None or _owns(tags, workspace, cluster))
        if not is_own and not _is_tagged(one, workspace, cluster):
            yield f"{one.request.action} on {resource}"


def _tags_before(resource: str, before: Snapshot) -> Mapping[str, str] | None:
    """Return the tags that a group or a secret carried; None for what else there is, or new."""
    for kind, pattern in _NAMED.items():
        found = pattern.search(resource)
        if found and (kind, found[1]) in before:
            return before[kind, found[1]].tags
    return None


def _owns(tags: Mapping[str, str], workspace: str, cluster: str | None) -> bool:
    return tags.get(TAG_WORKSPACE) == workspace and cluster in (None, tags.get(TAG_CLUSTER))


def _own_resources(workspace: str, cluster: str | None) -> re.Pattern[str]:
    """Return what the ARNs of a cluster's resources have, or of any of the workspace's clusters."""
    bucket = re.escape(bucket_name(workspace, ACCOUNT, REGION))
    name = r"[a-z][a-z0-9-]*" if cluster is None else re.escape(cluster)
    secret = re.escape(secret_id(workspace, ""))
    return re.compile(
        rf"autoScalingGroupName/terradask-{workspace}-{name}-[a-z0-9]+(-spot)?$"
        rf"|:secret:{secret}{name}-\w{{6}}$"
        rf"|:::{bucket}/(clusters/{name}/|applied/clusters/{name}\.json$|unlocks/|history/"
        rf"|accounts/[^/]+/{name}\.json$|reports/{name}/[^/]+/events\.json$)"
    )


def _is_tagged(one: LoggedRequest, workspace: str, cluster: str | None) -> bool:
    context = one.request.context

    def has(key: str, value: str | None) -> bool:
        found = context.get(f"aws:ResourceTag/{key}") or context.get(f"aws:RequestTag/{key}")
        return value is None or found == (value,)

    return has("terradask:workspace", workspace) and has("terradask:cluster", cluster)
