"""Find the dangers in a plan that a reviewer must not miss: losses, ingress, permissions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from terradask._common.masking import masked_text
from terradask._plans.policy.document import Resource
from terradask._plans.policy.openings import Direction, Opening, network_of, openings_of
from terradask._plans.policy.values import decoded
from terradask_modules.iam import listed, statements_of
from terradask_modules.ingress import EVERYWHERE, is_within
from terradask_modules.kinds import KINDS
from terradask_modules.names import HOST_SCRIPT_PREFIX

#: The text for a policy whose new value is known only later.
KNOWN_LATER = "changes, with a value known only after the apply"
POLICIES = ("policy", "assume_role_policy", "inline_policy")
#: Resources that extend a role's permissions without changing the role.
_ON_ROLES = ("aws_iam_role_policy", "aws_iam_role_policy_attachment")


@dataclass(frozen=True)
class Danger:
    """A danger that a reviewer should check.

    Parameters
    ----------
    kind
        ``running``, ``destroy``, ``replace``, ``ingress``, ``egress``, ``iam`` or
        ``script``.
    address
        The resource.
    text
        What happens.
    loss
        The loss with a destroyed or replaced resource; empty if none.
    before, after
        What a changed rule admits, such as ``tcp 22 from 203.0.113.7/32``; None if `text` has all.
    follows
        The resource from whose change this one follows; None for a cause of its own.
    command
        The command that ends it, if no apply does; None otherwise.
    """

    kind: str
    address: str
    text: str
    loss: str = ""
    before: str | None = None
    after: str | None = None
    follows: str | None = None
    command: str | None = None


class AdmittedBlock(NamedTuple):
    """An address block that a rule allows."""

    block: str
    ports: str
    group: str


def new_roles(resources: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the roles that a plan creates: they widen no existing role."""
    made = (
        r["change"]
        for r in resources
        if r["type"] == "aws_iam_role" and "create" in r["change"]["actions"]
    )
    return frozenset(str((change.get("after") or {}).get("name")) for change in made)


def openings_before(resources: Iterable[Mapping[str, Any]]) -> frozenset[AdmittedBlock]:
    """Return the blocks that rules allow before the plan: a renamed rule widens nothing."""
    return frozenset(opening for r in resources for opening in _openings(r, "before"))


def dangers_of(
    resource: Mapping[str, Any],
    action: str,
    because: str | None,
    roles_made: Collection[str] = (),
    open_before: Collection[AdmittedBlock] = (),
) -> list[Danger]:
    """Return the dangers of one entry in a plan's ``resource_changes``."""
    address, kind, change = resource["address"], resource["type"], resource["change"]
    found: list[Danger] = []
    meaning = KINDS[kind].loss if kind in KINDS else ""
    if action == "delete":
        text = _sentence("is destroyed", None, meaning)
        found.append(Danger("destroy", address, text, loss=meaning))
    if action == "replace":
        text = _sentence("is replaced", because, meaning)
        found.append(Danger("replace", address, text, loss=meaning))
    if action in ("create", "update", "replace"):
        found.extend(_ingress(resource, open_before))
        on_old_role = kind in _ON_ROLES and (change.get("after") or {}).get("role") not in (
            None,
            *roles_made,
        )
        found.extend(_iam(address, "update" if on_old_role else action, change))
        if str((change.get("after") or {}).get("key")).startswith(HOST_SCRIPT_PREFIX):
            found.append(Danger("script", address, "is run as root by each new host"))
    return [
        replace(
            danger,
            text=masked_text(danger.text),
            before=danger.before and masked_text(danger.before),
            after=danger.after and masked_text(danger.after),
        )
        for danger in found
    ]


def _sentence(what: str, because: str | None, meaning: str) -> str:
    reason = f" because of {because}" if because else ""
    return f"{what}{reason}{': ' + meaning if meaning else ''}"


# ---- ingress -------------------------------------------------------------------------------------


def _ingress(resource: Mapping[str, Any], open_before: Collection[AdmittedBlock]) -> list[Danger]:
    before, after = _openings(resource, "before"), _openings(resource, "after")
    if (resource["change"].get("after_unknown") or {}).get("security_group_id") is True:
        # The rule moves to its group's successor.
        before = {opening._replace(group="") for opening in before}
    new = [
        opening
        for opening in sorted(after)
        if not any(covers(old, opening) for old in (*before, *open_before))
    ]
    return [
        Danger(
            "ingress",
            resource["address"],
            f"lets {opening.block} in at "
            f"{opening.ports}{' - the whole internet' if opening.block in EVERYWHERE else ''}",
            before=_narrower(opening, (*before, *open_before)),
            after=f"{opening.ports} from {opening.block}",
        )
        for opening in new
    ]


def _narrower(new: AdmittedBlock, old: Iterable[AdmittedBlock]) -> str | None:
    """Return what earlier rules of the same group and ports admitted within a new one."""
    blocks = sorted({each.block for each in old if each.group and covers(new, each)})
    return f"{new.ports} from {', '.join(blocks)}" if blocks else None


def widened(resources: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return, for each rule that ends, the rule of the same group that admits all that it did."""
    resources = list(resources)
    made = {r["address"]: _openings(r, "after") for r in resources if not _ends(r)}
    ended = {r["address"]: _openings(r, "before") for r in resources if _ends(r)}
    return {
        address: by
        for address, openings in ended.items()
        for by, wide in made.items()
        if openings and all(any(covers(new, old) for new in wide) for old in openings)
    }


def _ends(resource: Mapping[str, Any]) -> bool:
    return list(resource["change"]["actions"]) == ["delete"]


def _openings(resource: Mapping[str, Any], side: str) -> set[AdmittedBlock]:
    """Return the blocks that one resource allows; security groups allow none from outside."""
    return {
        admitted(opening, block)
        for opening in rules_in(resource, side, "ingress")
        for block in opening.blocks
    }


def rules_in(resource: Mapping[str, Any], side: str, direction: Direction) -> list[Opening]:
    """Return the rules that a resource has before or after the plan."""
    kind, values = resource["type"], resource["change"].get(side)
    if not values or kind == "aws_default_security_group":
        return []
    item = Resource(resource["address"], kind, str(resource.get("name")), values)
    return openings_of(item, direction)


def admitted(opening: Opening, block: str) -> AdmittedBlock:
    """Return one block, or another peer, of a rule."""
    group = opening.group if isinstance(opening.group, str) else ""
    return AdmittedBlock(block, opening.written_ports, group)


def covers(old: AdmittedBlock, new: AdmittedBlock) -> bool:
    """Return whether a rule allowed at least what another one does."""
    if old.group != new.group or old.ports not in (new.ports, "every port"):
        return False
    old_block, new_block = network_of(old.block), network_of(new.block)
    if old_block is None or new_block is None:
        return old.block == new.block
    return is_within(new_block, old_block)


# ---- permissions ---------------------------------------------------------------------------------


def _iam(address: str, action: str, change: Mapping[str, Any]) -> list[Danger]:
    before, after = change.get("before") or {}, change.get("after") or {}
    unknown = change.get("after_unknown") or {}
    found: list[str] = []
    for name in POLICIES:
        if action != "create" and unknown.get(name) is True:
            found.append(f"{name} {KNOWN_LATER}")
        granted = _grants(after.get(name))
        if action == "create":
            granted = {
                grant
                for grant in granted
                if grant[0].endswith("*") and grant[1] == "*" and grant[0] in ("*", "iam:*", "*:*")
            }
        else:
            old = _grants(before.get(name))
            granted = {
                grant
                for grant in granted
                if not any(_grant_covers(earlier, grant) for earlier in old)
            }
            found.extend(
                _listed(
                    "no longer denies",
                    _grants(before.get(name), "Deny") - _grants(after.get(name), "Deny"),
                )
            )
        found.extend(_listed("allows", granted))
    if action != "create":
        attached = after.get("policy_arn")
        if attached and attached != before.get("policy_arn"):
            found.append(f"gives {after.get('role')} the permissions of {attached}")
        if (
            before.get("permissions_boundary")
            and not after.get("permissions_boundary")
            and not unknown.get("permissions_boundary")
        ):
            found.append(f"loses its permissions boundary {before['permissions_boundary']}")
    return [Danger("iam", address, "; ".join(found))] if found else []


_Grant = tuple[str, str, str]


def _grants(policy: Any, effect: str = "Allow") -> set[_Grant]:
    """Return action or principal, resource, and condition of every statement."""
    grants: set[_Grant] = set()
    for statement in statements_of(decoded(policy)):
        if statement.get("Effect") != effect:
            continue
        principal = statement.get("Principal")
        who = f" to {json.dumps(principal, sort_keys=True)}" if principal is not None else ""
        condition = (
            json.dumps(statement.get("Condition"), sort_keys=True)
            if statement.get("Condition")
            else ""
        )
        actions = listed(statement.get("Action")) or [
            f"everything except {', '.join(map(str, listed(statement.get('NotAction'))))}"
        ]
        for act in actions:
            grants.update(
                (f"{act}{who}", str(where), condition)
                for where in listed(statement.get("Resource")) or ["itself"]
            )
    return grants


def _listed(verb: str, grants: Iterable[_Grant]) -> Iterator[str]:
    """Yield a clause for each resource and condition, with all that is granted."""
    actions: dict[tuple[str, str], list[str]] = {}
    for what, where, condition in sorted(grants):
        actions.setdefault((where, condition), []).append(what)
    for (where, condition), named in actions.items():
        when = f" when {condition}" if condition else ""
        yield f"{verb} {', '.join(named)} on {where}{when}"


def _grant_covers(old: _Grant, new: _Grant) -> bool:
    """Return whether a new grant was already covered before."""
    if "everything except" in new[0] and old[0] != new[0]:
        return False
    return (
        fnmatchcase(new[0], _pattern(old[0]))
        and fnmatchcase(new[1], _pattern(old[1]))
        and old[2] in ("", new[2])
    )


def _pattern(text: str) -> str:
    # IAM has wildcards but no character sets.
    return text.replace("[", "[[]")
