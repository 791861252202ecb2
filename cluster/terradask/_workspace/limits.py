"""The used and the free part of a workspace's limits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from terradask._observe.running import WorkspaceUse, read_use
from terradask_host.rules.limits import MONTHLY, Cap, Limits, short_name

if TYPE_CHECKING:
    from terradask._workspace.context import WorkspaceContext


@dataclass(frozen=True)
class LimitUse:
    """One limit, and what is used of it.

    Parameters
    ----------
    scope
        ``workspace``, ``owner`` or ``team``.
    who
        The owner's ARN, or the team; empty for the workspace, and for clusters without a team.
    measure
        ``hosts``, ``vcpus``, ``gpus``, ``hourly_usd`` or ``monthly_usd``.
    limit, used
        The largest amount, and the present one; None if that isn't known.
    clusters
        The clusters that are counted, with their owners and their parts of what is used.
    """

    scope: str
    who: str
    measure: str
    limit: Decimal
    used: Decimal | None
    clusters: tuple[tuple[str, str, Decimal], ...] = ()

    @property
    def left(self) -> Decimal | None:
        """The rest; 0 if more is used; None if that isn't known."""
        return None if self.used is None else max(self.limit - self.used, Decimal(0))

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output; amounts as numbers."""
        return {
            "scope": self.scope,
            "who": self.who,
            "measure": self.measure,
            "limit": float(self.limit),
            "used": None if self.used is None else float(self.used),
            "left": None if self.left is None else float(self.left),
            "clusters": [
                {"cluster": cluster, "owner": owner, "amount": float(amount)}
                for cluster, owner, amount in self.clusters
            ],
        }


@dataclass(frozen=True)
class LimitsUse:
    """A workspace's limits, with what is used of each.

    Parameters
    ----------
    rows
        The limits: of the workspace, of each team and of each owner that uses something or has
        limits of its own.
    set_by, set_at
        ARN of the caller whose plan has set them, and when; None without limits.
    unknown
        Measure -> clusters of which some hosts' amount isn't known, and not counted; none for
        ``monthly_usd``, if the caller can't read what this month has cost.
    """

    rows: tuple[LimitUse, ...] = ()
    set_by: str | None = None
    set_at: str | None = None
    unknown: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "set_by": self.set_by,
            "set_at": self.set_at,
            "limits": [row.as_dict() for row in self.rows],
            "unknown": {measure: list(clusters) for measure, clusters in self.unknown},
        }


def find_limits(
    context: WorkspaceContext, owner: str | None = None, team: str | None = None
) -> LimitsUse:
    """Return the limits' use, as documented at `Workspace.limits`."""
    baseline = context.network.baseline()
    limits = baseline.limits_in_force
    if limits is None:
        return LimitsUse()
    use = read_use(context.aws, baseline.bucket, baseline.workspace, limits)
    return use_of(limits, use, context.aws.caller_arn, owner=owner, team=team)


def use_of(
    limits: Limits,
    use: WorkspaceUse,
    caller: str,
    *,
    owner: str | None = None,
    team: str | None = None,
) -> LimitsUse:
    """Return what is used of limits; of one owner or team alone, if given. No calls."""
    running = use.running
    spent = running.spent or {}
    spenders = [who for scope, who in spent if scope == "owner"]
    owners = {caller, *limits.owners, *(one.owner for one in running.uses), *spenders}
    teams = {*limits.teams, *(one.team for one in running.uses)}
    teams |= {who for scope, who in spent if scope == "team"}
    # Those who use nothing have limits too.
    if team is not None:
        teams.add(team)
    if owner is not None and owner.startswith("arn:"):
        owners.add(owner)
    caps = [
        *(cap for cap in limits.caps("", "") if cap.scope == "workspace"),
        *(cap for who in sorted(teams) for cap in limits.caps("", who) if cap.scope == "team"),
        *(cap for who in sorted(owners) for cap in limits.caps(who, "") if cap.scope == "owner"),
    ]
    wanted = [cap for cap in caps if _is_wanted(cap, owner, team)]
    measures = sorted(limits.measures - {MONTHLY})
    unknown = [(measure, tuple(running.unknown(measure))) for measure in measures]
    unknown = [each for each in unknown if each[1]]
    if running.spent is None:
        unknown.append((MONTHLY, ()))
    return LimitsUse(
        tuple(_row(cap, use) for cap in wanted),
        limits.set_by,
        limits.set_at,
        tuple(unknown),
    )


def _is_wanted(cap: Cap, owner: str | None, team: str | None) -> bool:
    if owner is None and team is None:
        return True
    if cap.scope == "owner":
        return owner is not None and owner in (cap.who, short_name(cap.who))
    return cap.scope == "team" and cap.who == team


def _row(cap: Cap, use: WorkspaceUse) -> LimitUse:
    running = use.running
    by: dict[tuple[str, str], Decimal] = {}
    for one in running.counted(cap) if cap.measure != MONTHLY else ():
        key = one.cluster, one.owner
        by[key] = by.get(key, Decimal(0)) + one.amount(cap.measure)
    parts = tuple((*key, amount) for key, amount in sorted(by.items()))
    is_unknown = cap.measure == MONTHLY and running.spent is None
    return LimitUse(*cap, None if is_unknown else running.used(cap), parts)
