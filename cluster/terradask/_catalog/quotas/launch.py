"""Check AWS's vCPU quotas for a launch, in parallel with other work, with three calls in all.

The smallest need counts: each group's type with the fewest vCPUs. A refused launch is thus
impossible with any type.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

from terradask._aws.session import Aws
from terradask._catalog.quotas.check import (
    Choice,
    Quota,
    QuotaCheck,
    by_quota,
    increase_commands,
    limits_of,
    vcpus_and_use,
)
from terradask.errors import AccessDenied, QuotaExceeded
from terradask_modules.names import SCHEDULER_GROUP, TAG_CLUSTER, TAG_WORKSPACE, WORKER_GROUP


@dataclass(frozen=True)
class Hosts:
    """The hosts of one group of workers, or the scheduler's."""

    #: ``scheduler``, ``workers``, or the name of another group.
    group: str
    #: Number to run.
    number: int
    #: Largest number: ``max_workers``.
    most: int
    #: Types and markets to request, in order.
    choices: tuple[Choice, ...]
    #: Number that AWS prepares beside them. None of them makes a start fail.
    prepared: int = 0

    def with_prepared(self, number: int) -> Hosts:
        """Return as many of these hosts, and those that are prepared beside them."""
        return replace(self, number=number + self.prepared)

    @property
    def prepared_too(self) -> str:
        """Words for a number that has prepared hosts too; empty without any."""
        return f" with {self.prepared} prepared beside the others" if self.prepared else ""

    def __str__(self) -> str:
        if self.group == SCHEDULER_GROUP:
            return "the scheduler"
        named = self.group if self.group == WORKER_GROUP else f"workers of group {self.group}"
        return f"{self.number} {named}"


class Allowance(NamedTuple):
    """An account's vCPU limits and usage."""

    #: Instance type -> its vCPUs.
    vcpus: Mapping[str, int]
    #: Limits by quota, without unknown ones.
    limits: Mapping[Quota, float]
    #: vCPUs in use outside the cluster.
    in_use: Mapping[Quota, int]


@dataclass(frozen=True)
class Shortage:
    """Hosts beyond the quotas."""

    hosts: Hosts
    #: The number of them within the quotas.
    fits: int
    #: Their quotas, each compared as if it counted all of them.
    checks: Sequence[QuotaCheck]

    def __str__(self) -> str:
        excess = (check.describe_excess(" outside this cluster") for check in self.checks)
        return f"{self.hosts}: {' and '.join(excess)}"


def shortages(hosts: Iterable[Hosts], allowance: Allowance) -> list[Shortage]:
    """Return the hosts beyond the quotas; empty if that isn't certain."""
    taken: Counter[Quota] = Counter()
    wanted: Counter[Quota] = Counter()
    counted = [(each, smallest) for each in hosts if (smallest := _smallest(each, allowance))]
    found = []
    # Hosts without a choice come first: those that may be Spot or on demand take the rest.
    for each, smallest in sorted(
        counted, key=lambda one: (one[0].group != SCHEDULER_GROUP, len(one[1]))
    ):
        missing, checks = each.number, []
        for quota, (vcpus, name) in smallest.items():
            limit, in_use = allowance.limits[quota], allowance.in_use.get(quota, 0)
            reach = wanted[quota] + each.number * vcpus
            checks.append(QuotaCheck(*quota, limit, in_use, reach, f"{vcpus} for each {name}"))
            number = min(missing, max(int(limit) - in_use - taken[quota], 0) // vcpus)
            taken[quota] += number * vcpus
            wanted[quota] += number * vcpus
            missing -= number
        if missing:
            first, (vcpus, _) = next(iter(smallest.items()))
            wanted[first] += missing * vcpus
            found.append(Shortage(each, each.number - missing, checks))
    return found


def _smallest(hosts: Hosts, allowance: Allowance) -> dict[Quota, tuple[int, str]]:
    """Return the fewest vCPUs by quota, and their type; empty unless everything is known."""
    found = {}
    for quota, names in by_quota(hosts.choices).items():
        if quota is None or quota not in allowance.limits or set(names) - allowance.vcpus.keys():
            return {}
        name = min(names, key=allowance.vcpus.__getitem__)
        found[quota] = allowance.vcpus[name], name
    return found


def refusal(cluster: str, short: Sequence[Shortage], region: str) -> QuotaExceeded:
    """Return the error for a cluster whose hosts exceed the quotas together."""
    return QuotaExceeded(
        f"cluster {cluster!r} needs more vCPUs than AWS lets this account run in {region}",
        cluster=cluster,
        given="; ".join(map(str, short)),
        largest={one.hosts.group: one.fits for one in short},
        quotas=list({each.code: each.as_excess() for one in short for each in one.checks}.values()),
        advice="request fewer or smaller instances, or a higher quota: "
        # The first of each group's quotas.
        f"{increase_commands(region, (one.checks[0] for one in short))}",
    )


class LaunchCheck:
    """Read vCPU quotas and usage in a thread of its own, from its creation on. Running instances
    are counted, since CloudWatch's usage metrics are five minutes old.

    Permissions needed: those of `caller_policies.see_vcpu_quotas`. Without them the check is
    skipped.
    """

    #: Longest wait for AWS's answer after the parallel work is done.
    patience_seconds = 5.0

    def __init__(self, aws: Aws, cluster: str, hosts: Sequence[Hosts], *, workspace: str) -> None:
        self._region, self._cluster, self._hosts = aws.region, cluster, hosts
        self._answer: Future[Allowance] = Future()
        self._failure_told = False
        own = {TAG_WORKSPACE: workspace, TAG_CLUSTER: cluster}

        def read() -> None:
            try:
                self._answer.set_result(_look_up(aws, hosts, own))
            except Exception as error:  # noqa: BLE001  any error is only a warning
                self._answer.set_exception(error)

        # A daemon: the process doesn't wait for it.
        threading.Thread(target=read, name="terradask-quotas", daemon=True).start()

    def check(self, warn: Callable[[str], None], *, starts: bool) -> None:
        """Refuse a cluster that exceeds the quotas now, or, if only planned, at its smallest size;
        warn if it exceeds them now, or at ``max_workers``. Raises `QuotaExceeded`.
        """
        try:
            allowance = self._answer.result(self.patience_seconds)
        except Exception as error:  # noqa: BLE001  AWS itself decides about a launch
            warn(f"{self._cluster}: {_not_checked(error)}")
            return
        alone = allowance._replace(in_use={})
        if short := shortages(self._hosts, allowance if starts else alone):
            raise refusal(self._cluster, short, self._region)
        now = [each.with_prepared(each.number) for each in self._hosts]
        for one in shortages(now, allowance):
            warn(
                f"{self._cluster}: starting it now{one.hosts.prepared_too} would exceed AWS's "
                f"quotas: {one}"
            )
        for one in shortages([each.with_prepared(each.most) for each in self._hosts], alone):
            warn(
                f"{self._cluster}: max_workers{one.hosts.prepared_too} exceeds AWS's quotas for "
                f"this account, which allow {one.fits} of {one}; `terradask quotas --request` "
                "requests more"
            )

    def warn_when_known(self, hosts: Sequence[Hosts], warn: Callable[[str], None]) -> None:
        """Warn of hosts that AWS won't launch, without waiting for the answer. It is no error: AWS
        may raise a quota meanwhile, and launches as many as allowed.
        """

        def compare(answer: Future[Allowance]) -> None:
            if (error := answer.exception()) is None:
                for one in shortages(hosts, answer.result()):
                    more = increase_commands(self._region, one.checks[:1])
                    warn(f"AWS will launch at most {one.fits} of {one}; for more: {more}")
            elif not self._failure_told:
                self._failure_told = True
                warn(_not_checked(error))

        self._answer.add_done_callback(compare)


def _look_up(aws: Aws, hosts: Iterable[Hosts], own: Mapping[str, str]) -> Allowance:
    """Read the hosts' quotas, usually one, with a call each; running instances, with a call for
    each 1,000; and types' vCPUs.
    """
    choices = [choice for each in hosts for choice in each.choices]
    quotas = sorted(quota for quota in by_quota(choices) if quota is not None)
    with ThreadPoolExecutor(1) as pool:
        limits = pool.submit(limits_of, aws, quotas)
        vcpus, in_use = vcpus_and_use(aws, {name for name, _ in choices}, own)
        return Allowance(vcpus, limits.result(), in_use)


def _not_checked(error: BaseException) -> str:
    why = str(error)
    if isinstance(error, AccessDenied):
        why = f"this caller lacks {error.action}"
    elif isinstance(error, TimeoutError):
        why = "AWS doesn't answer"
    return f"AWS's vCPU quotas are not checked: {why}"
