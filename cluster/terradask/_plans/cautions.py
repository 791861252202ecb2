"""Dangers of one or several plans by resource, the worst first, each with those that follow from
it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from terradask._common.naming import counted
from terradask._plans.dangers import Danger
from terradask._plans.policy.values import AttributeChange
from terradask._plans.summary import Change, PlanSummary
from terradask_modules.ingress import EVERYWHERE

if TYPE_CHECKING:
    from terradask._plans.report import PlanReport

#: Dangers for hosts and results come first, then openings, then replacements.
_RUNNING = "running"
_ORDER = (_RUNNING, "lost", "ingress", "egress", "iam", "script", "replace", "destroy")


@dataclass(frozen=True)
class Caution:
    """The dangers of one resource.

    Parameters
    ----------
    stacks
        The stacks in which it happens alike.
    address
        The resource.
    rank
        Its place among others: the lowest number first.
    texts
        Its dangers.
    running
        Their effects on running clusters.
    forced_by
        The values that force its replacement.
    rules
        The sources that its rules admit, before and after, if they admitted any before.
    followers
        Dangers that follow from it.
    """

    stacks: tuple[str, ...]
    address: str
    rank: int
    texts: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    forced_by: tuple[AttributeChange, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()
    followers: tuple[Danger, ...] = ()

    @property
    def following(self) -> str | None:
        """How many resources share its fate; None if none."""
        number = len({danger.address for danger in self.followers})
        return f"{counted(number, 'more resource')} with it" if number else None


def cautions(plans: Iterable[PlanReport]) -> list[Caution]:
    """Return the cautions of plans, the worst first; equal ones of several stacks as one."""
    found: dict[str, list[tuple[str, Caution]]] = {}
    for plan in plans:
        for caution in _of_plan(plan.summary, plan.dangers):
            # Values may be lists.
            found.setdefault(repr(caution), []).append((plan.stack, caution))
    whole = [
        replace(alike[0][1], stacks=tuple(stack for stack, _ in alike)) for alike in found.values()
    ]
    return sorted(whole, key=lambda caution: caution.rank)


def cautions_of(summary: PlanSummary, dangers: Sequence[Danger]) -> list[Caution]:
    """Return the cautions of one plan with these dangers, the worst first."""
    return sorted(_of_plan(summary, dangers), key=lambda caution: caution.rank)


def _of_plan(summary: PlanSummary, listed: Sequence[Danger]) -> Iterable[Caution]:
    changes = {change.address: change for change in summary.changes}
    own: dict[str, list[Danger]] = {}
    for danger in listed:
        own.setdefault(danger.address, []).append(danger)
    roots = {address for address, dangers in own.items() if any(not d.follows for d in dangers)}
    followers: dict[str, list[Danger]] = {}
    for address in [address for address in own if address not in roots]:
        for danger in own[address]:
            if danger.follows in roots:
                followers.setdefault(danger.follows, []).append(danger)
    alone = {danger.address for dangers in followers.values() for danger in dangers}
    for address, dangers in own.items():
        if address not in alone:
            yield _caution(address, dangers, changes.get(address), followers.get(address, []))
    for danger in summary.drift_dangers:
        yield _by_hand(danger)


def _by_hand(danger: Danger) -> Caution:
    """Return the caution about what was changed outside Terraform."""
    closing = [f"no apply takes it back, but this does: `{danger.command}`"]
    texts = (f"changed outside Terraform: {danger.text}", *(closing if danger.command else []))
    return Caution((), danger.address, rank_of(danger), texts)


def _caution(
    address: str, dangers: list[Danger], change: Change | None, followers: list[Danger]
) -> Caution:
    rules = tuple((d.before, d.after) for d in dangers if d.before and d.after)
    forced_by = (
        tuple(a for a in change.attributes if a.forces_replacement)
        if change is not None and any(d.kind == "replace" for d in dangers)
        else ()
    )
    return Caution(
        stacks=(),
        address=address,
        rank=min(map(rank_of, dangers)),
        texts=tuple(
            dict.fromkeys(_text(d, forced=bool(forced_by)) for d in dangers if d.kind != _RUNNING)
        ),
        running=tuple(d.text for d in dangers if d.kind == _RUNNING),
        forced_by=forced_by,
        rules=rules,
        # The end of a narrower rule is what `rules` shows.
        followers=() if rules else tuple(followers),
    )


def rank_of(danger: Danger) -> int:
    """Return a danger's place among others: the lowest number is the worst."""
    losing = danger.kind in ("destroy", "replace") and danger.loss and not danger.follows
    return _ORDER.index("lost" if losing else danger.kind)


def _text(danger: Danger, *, forced: bool) -> str:
    if danger.kind == "ingress" and danger.before and danger.after:
        everywhere = any(danger.after.endswith(f"from {block}") for block in EVERYWHERE)
        return f"admits more{' - the whole internet' if everywhere else ''}"
    if danger.kind == "replace" and forced:
        return f"is replaced{': ' if danger.loss else ''}{danger.loss}"
    return danger.text
