"""Whether to keep waiting for workers, decided from their hosts' reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set

from terradask._common.naming import counted
from terradask.errors import WorkersMissing
from terradask_host.documents import HostReport

#: An error describes so many hosts.
_DESCRIBED_HOSTS = 5

_IN_ORDER = frozenset({"leaving", "left"})


def check_joining(
    cluster: str,
    wanted: int,
    reports: Iterable[HostReport],
    *,
    joined: Set[str],
    plan: Set[str],
    waited_seconds: float,
    late: bool,
    why: str | None = None,
) -> None:
    """Raise `WorkersMissing` if the time is up, or too many of the hosts have failed."""
    lacking = wanted - len(joined)
    if lacking <= 0:
        return
    reports = list(reports)
    missing = [
        r
        for r in reports
        if r.role == "worker" and r.instance_id not in joined and r.state not in _IN_ORDER
    ]
    failed = [r for r in missing if r.failed_once]
    if not late and len(failed) < lacking:
        return
    unasked = wanted - len(plan)
    scale = (
        f"the cluster is scaled to {len(plan)} workers: scale it to {wanted} first; "
        if unasked > 0
        else ""
    )
    without_report = [
        f"  {name}: no report yet"
        for name in sorted(plan - joined - {r.instance_id for r in missing})
    ]
    described = [
        line for r in (failed or missing)[:_DESCRIBED_HOSTS] for line in r.describe_with_log()
    ]
    raise WorkersMissing(
        "\n".join(
            [
                f"{lacking} of the {wanted} workers waited for have not joined cluster {cluster!r} "
                f"after {waited_seconds:.0f} s"
                + (f"; {counted(len(failed), 'host')} failed." if failed else "."),
                *described,
                *without_report[:_DESCRIBED_HOSTS],
                *(
                    f"  {group}: {text}"
                    for r in reports
                    for _, group, what, text in r.notes
                    if what == "given up"
                ),
                *([why] if why else []),
            ]
        ),
        cluster=cluster,
        wanted=wanted,
        arrived=len(joined),
        advice=(
            f"{scale}terradask status {cluster} shows every host, terradask logs {cluster} HOST "
            "what one prints"
        ),
    )
