"""An account, as tests of accounts take it for granted."""

from __future__ import annotations

import datetime
from decimal import Decimal

from terradask._observe.run_costs.account import Account, AccountGroup, Offer, UsePrice

START = 1_795_507_200
RUN = "20261124T080000Z-1f3a9c"
BUCKET = "terradask-default-123456789012-us-east-1"
HOST = "i-0123456789abcdef0"
ACCOUNT = Account(
    run_id=RUN,
    cluster="etl",
    owner="arn:aws:iam::123456789012:user/ada",
    started_at=START,
    groups={
        "scheduler": AccountGroup("on-demand", ("m6i.large",)),
        "workers": AccountGroup("on-demand", ("m6i.xlarge", "m7i.xlarge")),
        "workers-spot": AccountGroup("spot", ("m6i.xlarge", "m7i.xlarge")),
    },
    tags={"project": "forecast"},
)
OFFER: Offer = ("m6i.xlarge", "on-demand", None)
PRICE = UsePrice(*OFFER, Decimal("0.192"), "2026-11-24T08:00:00Z", "AWS")


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(START + seconds, datetime.UTC)
