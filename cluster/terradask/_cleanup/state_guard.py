"""Refuse foreign entries in a cluster's state: it may contain only the stack's resources, under the
cluster's names.

Every user of a workspace may write its clusters' states, and Terraform acts on a state's contents:
it destroys entries that a configuration lacks, reads those that it refreshes, and downloads the
named providers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.group_facts import is_untagged
from terradask._aws.session import Aws
from terradask._aws.tags import as_text, found_tags, tags_of
from terradask._cleanup.resources import AUTOSCALING_GROUP, RULES, SECRET, Resource
from terradask._cleanup.search import (
    describe_secret,
    find_by_name,
    find_groups,
    find_rules,
    list_ec2_resources,
)
from terradask._common.side_by_side import side_by_side
from terradask._terraform.program import PROGRAMS
from terradask._terraform.state.model import unknown_format
from terradask.errors import ForeignResources
from terradask_host.documents import plain_text
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.kinds.kind import Listed, Named

# ---- what a cluster's stack makes ----------------------------------------------------------------
# A test holds it against the stacks that are synthesised, in both directions.


#: The data that the stack reads, by type and name.
DATA = {"aws_s3_object": "baseline"}


def expected(names: ClusterNames, kind: str, address: str) -> Mapping[str, str] | None:
    """Return the patterns that a resource's attributes match whole; None if the stack makes no
    resource of Terraform's type `kind` and this name in the stack, which follows it in the address.
    """
    known = KINDS.get(kind)
    if known is None or known.shape is None:
        return None
    if known.clusters == "isolated" and names.role_path is None:
        return None
    return known.shape(names, address)


def kinds() -> frozenset[str]:
    """Return the types of resources that a cluster can have."""
    return frozenset(name for name, kind in KINDS.items() if kind.shape is not None)


# ---- the owner of an entry, by the state alone ---------------------------------------------------


#: The only provider in states, by its address in each program's registry; another spelling can be
#: another provider.
PROVIDERS = tuple(program.provider_in_state for program in PROGRAMS)

#: Longest text from a state in a message.
_LONGEST = 200


@dataclass(frozen=True)
class Entry:
    """One resource in a state."""

    address: str
    type: str
    id: str

    def foreign(self, why: str) -> dict[str, str]:
        """Return the entry for an error, safe for a terminal."""
        texts = {"address": self.address, "type": self.type, "id": self.id, "why": why}
        return {key: plain_text(text)[:_LONGEST] for key, text in texts.items()}


def read_state(
    document: Mapping[str, Any], names: ClusterNames
) -> tuple[list[Entry], list[Mapping[str, str]]]:
    """Return a state's own entries, and foreign ones with the reason. Raises `TerraformError`."""
    known: list[Entry] = []
    foreign: list[Mapping[str, str]] = []
    try:
        for resource in document.get("resources") or ():
            for entry, why in _entries(resource, names):
                if why is None:
                    known.append(entry)
                else:
                    foreign.append(entry.foreign(why))
    except (AttributeError, LookupError, TypeError, ValueError):
        raise unknown_format() from None
    return known, foreign


def without(document: Mapping[str, Any], foreign: tuple[Mapping[str, str], ...]) -> dict[str, Any]:
    """Return a state without some addresses, as its next version."""
    gone = {one["address"] for one in foreign}
    kept = [one for one in document["resources"] if _address(one) not in gone]
    return {**document, "serial": int(document["serial"]) + 1, "resources": kept}


def _entries(
    resource: Mapping[str, Any], names: ClusterNames
) -> Iterator[tuple[Entry, str | None]]:
    kind, address = str(resource["type"]), _address(resource)
    why = _why_foreign(resource, names)
    instances = resource.get("instances") or ()
    if why is not None and not instances:
        # Terraform downloads the provider even of an entry without instances.
        yield Entry(address, kind, ""), why
    if why is None and resource["mode"] == "data":
        return
    for instance in instances:
        attributes = instance.get("attributes") or {}
        entry = Entry(address, kind, str(attributes.get("id") or ""))
        yield entry, why or _why_foreign_instance(resource, instance, attributes, names)


def _address(resource: Mapping[str, Any]) -> str:
    parts = (
        resource.get("module"),
        "data" if resource.get("mode") == "data" else None,
        str(resource["type"]),
        str(resource["name"]),
    )
    return ".".join(filter(None, parts))


def _why_foreign(resource: Mapping[str, Any], names: ClusterNames) -> str | None:
    kind, name = str(resource["type"]), str(resource["name"])
    if resource["provider"] not in PROVIDERS:
        return f"it names {resource['provider']}; clusters have only {' or '.join(PROVIDERS)}"
    if resource.get("module") or resource.get("each"):
        return "clusters have no modules and no lists of resources"
    if resource["mode"] == "data":
        return None if DATA.get(kind) == name else "clusters read no such data"
    if resource["mode"] != "managed" or expected(names, kind, name) is None:
        return "clusters have no resource of this type and name"
    return None


def _why_foreign_instance(
    resource: Mapping[str, Any],
    instance: Mapping[str, Any],
    attributes: Mapping[str, Any],
    names: ClusterNames,
) -> str | None:
    if "index_key" in instance or "attributes_flat" in instance:
        return "clusters have no lists of resources"
    patterns = expected(names, str(resource["type"]), str(resource["name"])) or {}
    if attributes.get("region", names.where.region) != names.where.region:
        return f"its region is {attributes['region']!r}; the workspace's is {names.where.region!r}"
    for attribute, pattern in patterns.items():
        value = attributes.get(attribute)
        # An interrupted apply can leave out attributes, and a profile can have lost its role;
        # only the id is always there.
        if value in (None, "") and attribute != "id":
            continue
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            return f"its {attribute} is {value!r}; this cluster's is {pattern.replace(chr(92), '')}"
    return None


_ROLE, _SECURITY_GROUP = "aws_iam_role", "aws_security_group"

#: Id of an existing resource -> its tags.
_Tags = Mapping[str, Mapping[str, str]]


class StateGuard:
    """Checks the states of one cluster.

    An entry is the cluster's if its type, name and provider are those of the cluster's stack, and
    its resource in AWS has the cluster's tags or doesn't exist. A group without tags is identified
    by its launch template.

    Permissions needed, for the types that are in the state:
    ``autoscaling:DescribeAutoScalingGroups``, ``secretsmanager:DescribeSecret``,
    ``ec2:DescribePlacementGroups``, ``DescribeLaunchTemplates``, ``DescribeSecurityGroups``,
    ``DescribeSecurityGroupRules``, ``iam:GetRole``, ``iam:GetInstanceProfile``.
    """

    def __init__(self, aws: Aws, names: ClusterNames) -> None:
        self._aws = aws
        self._names = names
        self._tags = names.where.tags
        #: Types and ids of entries known to be the cluster's.
        self._checked: set[tuple[str, str]] = set()

    def foreign(self, document: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
        """Return a state's foreign entries. Raises `TerraformError`."""
        known, foreign = read_state(document, self._names)
        fresh = [entry for entry in known if (entry.type, entry.id) not in self._checked]
        tags = self._tags_in_aws(fresh)
        for entry in fresh:
            found = tags.get(entry.type, {}).get(entry.id)
            if found is None or self._tags.items() <= found.items():
                self._checked.add((entry.type, entry.id))
            else:
                foreign.append(entry.foreign(found_tags(found, self._tags)))
        return tuple(foreign)

    def check(self, document: Mapping[str, Any], where: str) -> None:
        """Refuse a state with foreign entries. Raises `ForeignResources`, `TerraformError`."""
        foreign = self.foreign(document)
        if not foreign:
            return
        name = self._names.where.cluster
        raise ForeignResources(
            f"The state of cluster {name!r} names {len(foreign)} "
            f"{'resource that isn' if len(foreign) == 1 else 'resources that aren'}'t its own; "
            "nothing was changed.",
            cluster=name,
            resources=foreign,
            allowed=f"terradask's resources for this cluster, with the tags {as_text(self._tags)}",
            advice=(
                f"terradask repair-state {name} removes these entries from the state and leaves "
                f"their resources alone; find out who wrote {where}: the bucket keeps versions. "
                "The permissions of terradask iam user suffice to stop and destroy clusters; an "
                "administrator's permissions would let a planted state do more harm"
            ),
        )

    def _tags_in_aws(self, entries: Sequence[Entry]) -> Mapping[str, _Tags]:
        """Return the tags of entries' resources, by type."""
        look_up: dict[str, Callable[[list[str]], _Tags]] = {
            AUTOSCALING_GROUP: self._group_tags,
            SECRET: self._secret_tags,
            "aws_launch_template": self._template_tags,
            **dict.fromkeys(RULES, self._rule_tags),
            "aws_iam_role_policy": self._role_policy_tags,
        }
        for kind in kinds() - look_up.keys():
            find = KINDS[kind].find
            if isinstance(find, Listed):
                look_up[kind] = partial(self._ec2_tags, kind, find.by_id)
            elif isinstance(find, Named):
                look_up[kind] = partial(self._iam_tags, kind)
        ids: dict[str, list[str]] = {}
        for entry in entries:
            if entry.type in look_up:
                ids.setdefault(entry.type, []).append(entry.id)
        found = side_by_side([partial(look_up[kind], named) for kind, named in ids.items()], 8)
        return dict(zip(ids, found, strict=True))

    def _group_tags(self, names: list[str]) -> _Tags:
        found = find_groups(self._aws.client("autoscaling"), AutoScalingGroupNames=names)
        # A group whose tags were removed is still the cluster's.
        return {
            each.id: self._tags if is_untagged(each.description, self._tags) else each.tags
            for each in found
        }

    def _secret_tags(self, arns: list[str]) -> _Tags:
        client = self._aws.client("secretsmanager")
        found = {arn: describe_secret(client, arn) for arn in arns}
        # It can be another cluster's.
        # AWS (documented): Secrets Manager also finds a secret by its ARN without the last six
        # characters.
        # https://docs.aws.amazon.com/secretsmanager/latest/userguide/troubleshoot.html
        return {
            arn: secret.tags if secret.description["ARN"] == arn else {}
            for arn, secret in found.items()
            if secret is not None
        }

    def _template_tags(self, ids: list[str]) -> _Tags:
        describe = self._aws.client("ec2").describe_launch_templates
        found: dict[str, Mapping[str, str]] = {}
        for identity in ids:
            # There is no filter for it.
            with unless("*.NotFound"):
                (template,) = describe(LaunchTemplateIds=[identity])["LaunchTemplates"]
                found[identity] = tags_of(template.get("Tags"))
        return found

    def _rule_tags(self, ids: list[str]) -> _Tags:
        """Return the tags of rules' groups: a rule belongs to the owner of its group."""
        rules = find_rules(self._aws, "security-group-rule-id", ids)
        groups = {rule.id: rule.description["GroupId"] for rule in rules}
        known = sorted(set(groups.values()))
        tags = self._ec2_tags(_SECURITY_GROUP, "group-id", known) if known else {}
        return {rule: tags.get(group, {}) for rule, group in groups.items()}

    def _role_policy_tags(self, ids: list[str]) -> _Tags:
        roles = {identity: identity.partition(":")[0] for identity in ids}
        tags = self._iam_tags(_ROLE, sorted(set(roles.values())))
        return {identity: tags[role] for identity, role in roles.items() if role in tags}

    def _iam_tags(self, kind: str, names: list[str]) -> _Tags:
        client = self._aws.client("iam")
        return _by_id(one for name in names for one in find_by_name(client, kind, name))

    def _ec2_tags(self, kind: str, identity: str, values: list[str]) -> _Tags:
        filters = [{"Name": identity, "Values": values}]
        return _by_id(list_ec2_resources(self._aws.client("ec2"), kind, filters))


def _by_id(found: Iterable[Resource]) -> _Tags:
    return {resource.id: resource.tags for resource in found}
