"""The accounts in a workspace's bucket: read, listed, and brought up to date from AWS."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from terradask._aws.activities import activities_since
from terradask._aws.listing import listed_instances
from terradask._aws.s3 import ObjectStore, as_json
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters
from terradask._common.json_text import parse_json
from terradask._common.side_by_side import side_by_side
from terradask._deployments.accounts.account import Account, UsePrice, account_key
from terradask._deployments.accounts.look import Look, looked
from terradask._pricing.prices import PriceKey, PriceList
from terradask.errors import DocumentFormat
from terradask_host.documents import UNREADABLE, HostReport
from terradask_host.log_streams import RUN_ID
from terradask_modules.names import (
    ACCOUNTS,
    CLUSTER_PATTERN,
    TAG_RUN_PREFIX,
    group_name,
    workspace_of_bucket,
)

logger = logging.getLogger("terradask")

MOST_BYTES = 8 * 2**20

_PARALLEL_READS = 32
#: Auto Scaling limits the calls of all callers of an account together.
PARALLEL_LOOKS = 4
_CLUSTER = re.compile(CLUSTER_PATTERN, re.ASCII)
_ATTEMPTS = 3


@dataclass(frozen=True)
class AccountBook:
    """The accounts of a workspace's runs.

    Permissions needed: ``s3:GetObject`` and ``PutObject`` on ``accounts/*``, ``s3:ListBucket``;
    ``autoscaling:DescribeScalingActivities``, ``ec2:DescribeInstances``; those of the price list.
    """

    aws: Aws
    bucket: str
    #: None: instances that have no price yet get none.
    prices: Callable[[], PriceList] | None = None

    @property
    def _store(self) -> ObjectStore:
        return ObjectStore(self.aws, self.bucket, ACCOUNTS)

    def open(self, account: Account) -> None:
        """Write the account of a run that begins, unless there is one."""
        key = account_key(account.run_id, account.cluster)
        self._store.claim(key, as_json(account.to_document()))

    def runs(self, since: datetime.datetime | None = None) -> list[tuple[str, str]]:
        """List the runs that have an account, the oldest first: each with its cluster.

        Only those that may have gone on at a time or later, by their id; a call for each thousand.
        """
        first = "" if since is None else f"{since:%Y%m%dT%H%M%SZ}"
        found = []
        for key in self._store.names():
            run_id, _, name = key.partition("/")
            cluster = name.removesuffix(".json")
            is_own = RUN_ID.fullmatch(run_id) and _CLUSTER.fullmatch(cluster)
            if is_own and account_key(run_id, cluster) == key and run_id >= first:
                found.append((run_id, cluster))
        return sorted(found)

    def read_all(self, runs: Sequence[tuple[str, str]]) -> list[Account]:
        """Read accounts, several at a time; those that can't be read are warned of and left out."""
        found = side_by_side([partial(self._read, *run) for run in runs], _PARALLEL_READS)
        return [entry[0] for entry in found if entry is not None]

    def _read(self, run_id: str, cluster: str) -> tuple[Account, str] | None:
        key = account_key(run_id, cluster)
        try:
            found = self._store.read(key, most_bytes=MOST_BYTES)
            if found is None:
                return None
            return Account.read(parse_json(found.content), run_id, cluster), found.etag
        except (*UNREADABLE, DocumentFormat, ArithmeticError) as error:
            logger.warning(
                "%s%s is left out: it isn't as terradask writes it (%s)",
                ACCOUNTS,
                key,
                type(error).__name__,
            )
            return None

    def bring_up_to_date(
        self,
        account: Account,
        read_reports: Callable[[], Sequence[HostReport]] = tuple,
        *,
        is_over: bool,
        next_start: int | None = None,
        reason: str | None = None,
        when: Callable[[], bool] = lambda: True,
    ) -> Account:
        """Ask AWS about a run, and return its account as it is then; keep that in the bucket, if
        `when` says so.

        Several callers may do so at a time: what one has found is added to what is there.
        """
        look_up = partial(self._look, account, read_reports)
        read = partial(self._read, account.run_id, account.cluster)
        asked: list[Callable[[], Any]] = [look_up, read]
        look, stored = side_by_side(asked, len(asked))
        for attempt in range(_ATTEMPTS):
            stored = read() if attempt else stored
            base = account if stored is None else stored[0]
            found = looked(base, look, is_over=is_over, next_start=next_start, reason=reason)
            now = self._priced(found)
            if not when() or self._keep(now, stored):
                break
        return now

    def add_prices(self, account: Account, prices: Sequence[UsePrice]) -> Account:
        """Return an account with prices that it lacked, and keep that."""
        wanted = set(account.unpriced())
        now = account.with_prices(tuple(price for price in prices if price.key in wanted))
        if now != account:
            self._keep(now, self._read(account.run_id, account.cluster))
        return now

    def _keep(self, now: Account, stored: tuple[Account, str] | None) -> bool:
        """Write an account in place of what was read; return whether no other caller was first."""
        key, content = account_key(now.run_id, now.cluster), as_json(now.to_document())
        if stored is None:
            return self._store.claim(key, content)
        return now == stored[0] or self._store.replace(key, content, stored[1])

    def _look(self, account: Account, read_reports: Callable[[], Sequence[HostReport]]) -> Look:
        # The run's first second is that of its document.
        since = datetime.datetime.fromtimestamp(account.started_at, datetime.UTC)
        workspace = str(workspace_of_bucket(self.bucket, self.aws.region))
        autoscaling, ec2 = self.aws.client("autoscaling"), self.aws.client("ec2")
        of_run = tag_filters({f"{TAG_RUN_PREFIX}id": account.run_id})
        names = list(account.groups)
        calls: list[Callable[[], Any]] = [
            *(
                partial(
                    activities_since,
                    autoscaling,
                    group_name(workspace, account.cluster, name),
                    since,
                )
                for name in names
            ),
            lambda: list(listed_instances(ec2, Filters=of_run)),
        ]
        *shown, instances = side_by_side(calls, PARALLEL_LOOKS)
        reports = read_reports()
        return Look(
            round(max(at for _, at in shown).timestamp()),
            {name: activities for name, (activities, _) in zip(names, shown, strict=True)},
            instances,
            tuple(report for report in reports if report.run_id == account.run_id),
        )

    def _priced(self, account: Account) -> Account:
        keys = account.unpriced()
        if not keys or self.prices is None:
            return account
        return account.with_prices(tuple(find_prices(self.prices(), self.aws.region, keys)))


def find_prices(
    prices: PriceList, region: str, keys: Iterable[tuple[str, Any, str | None]]
) -> Iterable[UsePrice]:
    """Yield the prices that AWS has."""
    wanted: Mapping[PriceKey, tuple[str, Any, str | None]] = {
        PriceKey("instance", region, name, market, zone): (name, market, zone)
        for name, market, zone in keys
    }
    quotes = prices.look_up(wanted)
    for asked, (name, market, zone) in wanted.items():
        if asked in quotes.prices:
            price = quotes.prices[asked]
            yield UsePrice(name, market, zone, price.hourly_usd(), price.as_of, quotes.source)
