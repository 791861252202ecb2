"""What was done to a workspace: applied and destroyed, and the runs of its clusters."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator

from terradask._common.clock import epoch_text, utc_text
from terradask._deployments.accounts.account import Account
from terradask._deployments.logs.times import Moment, moment_of
from terradask._plans.history import HistoryEntry, HistoryNotes
from terradask._workspace.context import WorkspaceContext
from terradask._workspace.costs import find_accounts
from terradask_modules.names import SCHEDULER_GROUP


def read_history(context: WorkspaceContext, since: Moment | None = None) -> list[HistoryEntry]:
    """Return what was done, the oldest first; as `Workspace.history` says."""
    now = datetime.datetime.now(datetime.UTC)
    first = None if since is None else moment_of(since, now, "since")
    noted = HistoryNotes(context.aws, context.bucket).read(first)
    begins = "" if first is None else utc_text(first)
    runs = (one for one in entries_of(find_accounts(context, first)) if one.at >= begins)
    return sorted([*noted, *runs], key=lambda entry: entry.at)


def entries_of(accounts: Iterable[Account]) -> Iterator[HistoryEntry]:
    """Yield that runs have started and ended, and that a scheduler's host was replaced. Pure."""
    for account in accounts:
        yield HistoryEntry(
            epoch_text(account.started_at),
            "started",
            account.cluster,
            by=account.owner,
            run_id=account.run_id,
        )
        hosts = sorted(
            (use for use in account.uses.values() if use.group == SCHEDULER_GROUP),
            key=lambda use: use.start,
        )
        for before, use in itertools.pairwise(hosts):
            yield HistoryEntry(
                epoch_text(use.start),
                "replaced",
                account.cluster,
                run_id=account.run_id,
                reason=(
                    f"the scheduler's host {before.instance_id}: the tasks and results that its "
                    "scheduler held are lost"
                ),
            )
        if account.ended_at is not None:
            yield HistoryEntry(
                epoch_text(account.last_end),
                "ended",
                account.cluster,
                run_id=account.run_id,
                reason=account.reason,
            )
