"""The lines that open a refused target: in terradask.toml, and on the other side. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._clusters.reach.refusal import Refusal
from terradask._clusters.reach.targets import Target

_REASON = "why tasks need it"
_S3_READ = ("s3:GetObject", "s3:ListBucket")


@dataclass(frozen=True)
class Side:
    """The cluster's side, for lines on either.

    Parameters
    ----------
    cluster
        The cluster's name.
    role
        ARN of the role of the host that tried, or of another caller whose credentials tasks have.
    is_own_role
        Whether the role is terradask's, to which `network.task_rights` adds.
    security_groups
        The host's, for rules of others.
    has_own_groups
        Whether the host's security groups are terradask's, with the rules of `network.egress`.
    is_isolated
        Whether lines may be for one cluster.
    partition
        Of its region, such as ``aws``.
    """

    cluster: str
    role: str
    is_own_role: bool
    security_groups: Sequence[str]
    has_own_groups: bool
    is_isolated: bool
    partition: str


@dataclass(frozen=True)
class Advice:
    """Lines and actions that open a target.

    Parameters
    ----------
    toml
        Lines of ``terradask.toml``.
    theirs
        Lines for the owner of the other side.
    to_do
        Another action, in a sentence.
    """

    toml: str = ""
    theirs: str = ""
    to_do: str = ""


# ---- connections ---------------------------------------------------------------------------------


def egress_advice(side: Side, address: str, port: int) -> Advice:
    """Return the rule that lets hosts out."""
    block = f"{address}/128" if ":" in address else f"{address}/32"
    if not side.has_own_groups:
        groups = " or ".join(side.security_groups) or "network.security_groups"
        return Advice(to_do=f"have an outbound rule added to {groups}: TCP {port} to {block}")
    lines = [
        "[[network.egress]]",
        f"destination = {_toml(block)}  # or its subnet's block, or its security group, sg-…",
        f"ports = [{port}]",
        f"reason = {_toml(_REASON)}",
    ]
    return Advice(toml="\n".join([*lines, *_clusters_line(side)]))


def ingress_text(side: Side, port: int, own_addresses: str) -> str:
    """Return the inbound rule that the other side needs."""
    groups = " or ".join(side.security_groups) or "the hosts' security group"
    return (
        f"an inbound rule of its security group: TCP {port} from {groups}; outside of this VPC and "
        f"those peered with it, from {own_addresses}. Network ACLs and routes may refuse too"
    )


# ---- calls of AWS --------------------------------------------------------------------------------


def call_advice(target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    """Return what opens a target whose calls are refused."""
    first = refusals[0]
    write = _ADVICE.get(first.by)
    return Advice() if write is None else write(target, refusals, side)


def _role(target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    first = refusals[0]
    if first.is_explicit:
        policy, what = first.policy or "a policy of the role", first.resource or first.action
        return Advice(to_do=f"{policy} denies {first.action}: its owner can exempt {what}")
    return _rights(target, [one.action for one in refusals], side)


def _rights(target: Target, actions: Sequence[str], side: Side, key: str | None = None) -> Advice:
    if not side.is_own_role:
        words = ", ".join(dict.fromkeys(actions))
        return Advice(
            to_do=f"tasks act as {side.role}, whose rights are not the workspace's: have {words} "
            f"on {target.arn or target.text} added there"
        )
    if target.kind == "s3":
        return Advice(toml=_bucket_lines(target, key))
    return Advice(toml=_statement_lines(side, *_statement(target, actions)))


def _bucket_lines(target: Target, key: str | None = None) -> str:
    bucket, path = target.facts["bucket"], target.facts["key"]
    prefix = path if target.facts["is_prefix"] else path.rpartition("/")[0]
    entry = {"name": bucket, "prefix": prefix.rstrip("/"), "access": "read", "kms_key_arn": key}
    fields = ", ".join(f"{name} = {_toml(value)}" for name, value in entry.items() if value)
    return f"[network]\ndata_buckets = [{{{fields}}}]"


def _statement(target: Target, actions: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return a statement's actions and resources, with those that usually go together."""
    facts, arn = target.facts, str(target.arn)
    if target.kind != "catalog":
        return actions, [str(facts.get("arn") or arn)]
    before = arn.partition(":database/")[0].partition(":table/")[0]
    database, table = facts["database"], facts["table"] or "*"
    parts = ("catalog", f"database/{database}", f"table/{database}/{table}")
    read = [f"glue:Get{what}" for what in ("Database", "Table", "Tables", "Partitions")]
    return read, [f"{before}:{part}" for part in parts]


def _key(target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    first = refusals[0]
    key = first.resource if first.resource and ":key/" in first.resource else None
    shown = key or f"arn:{side.partition}:kms:REGION:ACCOUNT:key/ID"
    theirs = json.dumps(
        {
            "Effect": "Allow",
            "Principal": {"AWS": side.role},
            "Action": first.action,
            "Resource": "*",
        }
    )
    ours = _rights(target, [first.action], side, shown)
    if target.kind != "s3" and ours.toml:
        ours = Advice(toml=_statement_lines(side, [first.action], [shown]))
    in_key = f"in the policy of the key {key or 'that encrypts it'}: {theirs}"
    if first.is_explicit:
        return Advice(to_do=f"a policy denies {first.action} on {shown}: its owner can exempt it")
    if first.side == "ours":
        return ours
    if first.side == "theirs":
        return Advice(theirs=in_key)
    return Advice(ours.toml, in_key, ours.to_do)


def _their_policy(target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    first = refusals[0]
    if first.is_explicit:
        return Advice(
            theirs=f"its policy denies {first.action} to {side.role}: its owner can exempt this "
            "role; such a Deny often has a condition on a VPC, an endpoint or an organization"
        )
    return Advice(
        theirs=f"in the policy of {target.arn or target.text}: {_grant(target, first, side)}"
    )


def _grant(target: Target, refusal: Refusal, side: Side) -> str:
    if target.kind == "s3":
        bucket = f"arn:{side.partition}:s3:::{target.facts['bucket']}"
        what: dict[str, Any] = {"Action": list(_S3_READ), "Resource": [bucket, f"{bucket}/*"]}
    else:
        what = {"Action": refusal.action, "Resource": refusal.resource or target.arn}
    return json.dumps({"Effect": "Allow", "Principal": {"AWS": side.role}, **what})


def _role_or_policy(target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    ours = _rights(target, [one.action for one in refusals], side)
    if target.kind == "role":
        return Advice(ours.toml, _trust(target, refusals, side).theirs, ours.to_do)
    theirs = _their_policy(target, refusals, side).theirs
    return Advice(ours.toml, f"if it is another account's, {theirs}", ours.to_do)


def _boundary(target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    first = refusals[0]
    named = first.policy or "network.permissions_boundary"
    return Advice(
        toml=_rights(target, [one.action for one in refusals], side).toml,
        to_do=f"{named} must allow {first.action}. If terradask iam setup prints it: "
        "add the lines, print it again, and have it updated before terradask apply network",
    )


def _trust(target: Target, _refusals: Sequence[Refusal], side: Side) -> Advice:
    statement = {"Effect": "Allow", "Principal": {"AWS": side.role}, "Action": "sts:AssumeRole"}
    return Advice(theirs=f"in the trust policy of {target.text}: {json.dumps(statement)}")


def _lake_formation(target: Target, _refusals: Sequence[Refusal], side: Side) -> Advice:
    facts = target.facts
    resource: dict[str, Any] = (
        {"Table": {"DatabaseName": facts["database"], "Name": facts["table"]}}
        if facts.get("table")
        else {"Database": {"Name": facts.get("database", "DATABASE")}}
    )
    rights = "SELECT DESCRIBE" if facts.get("table") else "DESCRIBE"
    return Advice(
        theirs="aws lakeformation grant-permissions --principal DataLakePrincipalIdentifier="
        f"{side.role} --permissions {rights} --resource '{json.dumps(resource)}'"
    )


def _organization(_target: Target, refusals: Sequence[Refusal], _side: Side) -> Advice:
    first = refusals[0]
    named = f"{first.policy} " if first.policy else "a policy of your organization "
    return Advice(to_do=f"{named}refuses {first.action}: those who manage the organization decide")


def _endpoint(_target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    first = refusals[0]
    return Advice(
        theirs=f"the policy of the VPC's endpoint must allow {first.action} to {side.role} on "
        f"{first.resource or 'it'}; that of a given VPC belongs to its owner"
    )


def _session(_target: Target, refusals: Sequence[Refusal], side: Side) -> Advice:
    return Advice(to_do=f"the session of {side.role} was made with less: {refusals[0].action}")


def _credentials(_target: Target, _refusals: Sequence[Refusal], side: Side) -> Advice:
    return Advice(
        to_do="tasks' credentials are refused: send new ones (cluster.send_credentials()), or "
        "remove AWS_* variables from cluster.environ, so that tasks act as the host's role"
        if not side.is_own_role
        else "check that the variables of cluster.environ name no other credentials"
    )


_ADVICE: Mapping[str, Any] = {
    "role": _role,
    "key": _key,
    "their_policy": _their_policy,
    "role_or_policy": _role_or_policy,
    "boundary": _boundary,
    "trust": _trust,
    "lake_formation": _lake_formation,
    "organization": _organization,
    "endpoint": _endpoint,
    "session": _session,
    "credentials": _credentials,
}


def _statement_lines(side: Side, actions: Sequence[str], resources: Sequence[str]) -> str:
    # Loads pydantic.
    from terradask_stacks.settings.task_rights import entry_for

    entry = entry_for(_REASON, list(dict.fromkeys(actions)), resources)
    return "\n".join([entry, *_clusters_line(side)])


def _clusters_line(side: Side) -> list[str]:
    return (
        [f"# clusters = [{_toml(side.cluster)}]  # for this cluster alone"]
        if side.is_isolated
        else []
    )


def _toml(value: str) -> str:
    # JSON's texts are TOML's too.
    return json.dumps(value, ensure_ascii=False)
