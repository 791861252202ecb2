"""Switches for behaviour of AWS and of the network that moto lacks.

AWS (documented): Organizations makes a role OrganizationAccountAccessRole in an account that it
creates, which its own account's callers may assume, and which may do everything.
https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_accounts_access.html
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from terradask_simulator.aws.backend import ACCOUNTS, TRUST
from terradask_simulator.aws.endpoint.answers import LATER_VALUES, LostAnswers
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.errors import SimulatorError
from terradask_simulator.aws.fidelity import (
    buckets,
    clock,
    not_yet,
    slow_instances,
    spot,
    young_buckets,
    young_identities,
    young_resources,
)
from terradask_simulator.aws.fidelity.launch_limits import (
    ACCOUNT_STATE,
    ENFORCEMENT,
    SHORTAGES,
    STATES,
    Shortage,
)
from terradask_simulator.aws.fidelity.log_events import DELAY
from terradask_simulator.aws.fidelity.pricing_spot import CHANGES, PriceChange
from terradask_simulator.aws.fidelity.quotas import applied_quotas, set_quota
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.network import LoopbackNetwork
from terradask_simulator.aws.switchboard import Switch, Undo, turning

__all__ = ["aws_switches"]

_ACCESS_ROLE = "OrganizationAccountAccessRole"
_EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


def aws_switches(
    throttle: Throttle, lost_answers: LostAnswers, signatures: Signatures, network: LoopbackNetwork
) -> Mapping[str, Switch]:
    """Return the switches of AWS and of the network."""

    def expire(access_key: str, on: bool = True) -> Undo:
        change = signatures.expired.add if on else signatures.expired.discard
        change(access_key)
        return "expire_credentials", {"access_key": access_key, "on": not on}

    def skew(seconds: float, refusing: bool = True) -> Undo:
        if refusing:
            before, signatures.ahead_seconds = signatures.ahead_seconds, float(seconds)
        else:
            before = clock.set_ahead(float(seconds))
        return "skew_clock", {"seconds": before, "refusing": refusing}

    def cut(instance_id: str, seconds: float) -> Undo:
        network.cut(instance_id, float(seconds))
        return "cut_network", {"instance_id": instance_id, "seconds": 0.0}

    def skewed() -> dict[str, float]:
        return {"signatures": signatures.ahead_seconds, "dates": clock.ahead_seconds()}

    return {
        "no_capacity": Switch(_no_capacity, lambda: list(map(asdict, SHORTAGES))),
        "allow_capacity": Switch(_allow_capacity),
        "add_account": Switch(_add_account, lambda: list(ACCOUNTS)),
        "set_quota": Switch(_set_quota, applied_quotas),
        "enforce_quotas": turning("enforce_quotas", ENFORCEMENT),
        "refuse_account": Switch(_refuse_account, ACCOUNT_STATE.read),
        "set_spot_price": Switch(_set_spot_price, _spot_prices),
        "reset_spot_prices": Switch(_reset_spot_prices),
        "interrupt_spot": Switch(spot.interrupt),
        "recommend_rebalance": Switch(spot.recommend_rebalance),
        "throttle": turning("throttle", throttle),
        "contend_groups": turning("contend_groups", not_yet.CONTENTION),
        "delay_identities": turning("delay_identities", young_identities.DELAY),
        "hide_resources": turning("hide_resources", young_resources.HIDING),
        "linger_secrets": turning("linger_secrets", not_yet.LINGERING),
        "delay_launches": turning("delay_launches", slow_instances.DELAYS),
        "cancel_launches": turning("cancel_launches", slow_instances.LAUNCH_FAILURE),
        "linger_terminating": turning("linger_terminating", slow_instances.LINGER),
        "hide_instances": turning("hide_instances", slow_instances.LAG),
        "hide_objects": turning("hide_objects", buckets.NEW_VERSIONING),
        "unsettle_buckets": turning("unsettle_buckets", young_buckets.NEW_BUCKETS),
        "give_bucket": Switch(_give_bucket, lambda: dict(buckets.FOREIGN)),
        "delay_logs": turning("delay_logs", DELAY),
        "drop_answers": turning("drop_answers", lost_answers),
        "later_values": turning("later_values", LATER_VALUES),
        "expire_credentials": Switch(expire, lambda: sorted(signatures.expired)),
        "skew_clock": Switch(skew, skewed),
        "cut_network": Switch(cut),
    }


def _no_capacity(instance_type: str, zone: str, market: str, beyond: int) -> Undo:
    if market not in ("*", "on-demand", "spot"):
        raise SimulatorError("There is no such market", given=market, allowed="on-demand, spot")
    shortage = Shortage(instance_type, zone, market, int(beyond))
    SHORTAGES.append(shortage)
    return "allow_capacity", asdict(shortage)


def _add_account(account: str) -> None:
    from moto.iam.models import iam_backends

    if not (len(account) == 12 and account.isdigit()):
        raise SimulatorError("This is no number of an account", given=account, allowed="12 digits")
    if account in ACCOUNTS:
        return
    iam = iam_backends[account]["aws"]
    iam.create_role(
        _ACCESS_ROLE,
        json.dumps(TRUST),
        path="/",
        permissions_boundary=None,
        description="",
        tags=[],
        max_session_duration="3600",
    )
    iam.put_role_policy(_ACCESS_ROLE, "AdministratorAccess", json.dumps(_EVERYTHING))
    ACCOUNTS.append(account)


def _allow_capacity(**shortage: Any) -> None:
    if not shortage:
        SHORTAGES.clear()
    elif Shortage(**shortage) in SHORTAGES:
        SHORTAGES.remove(Shortage(**shortage))


def _set_quota(quota_code: str, value: float, service_code: str) -> Undo:
    before = set_quota(service_code, quota_code, float(value))
    return "set_quota", {"quota_code": quota_code, "value": before, "service_code": service_code}


def _refuse_account(state: str) -> Undo:
    if state and state not in STATES:
        raise SimulatorError("An account has no such state", given=state, allowed=", ".join(STATES))
    return "refuse_account", ACCOUNT_STATE.turn(state=state)


def _set_spot_price(instance_type: str, usd: str, zone: str) -> Undo:
    CHANGES.append(
        PriceChange(instance_type, zone, Decimal(usd), datetime.datetime.now(datetime.UTC))
    )
    return "reset_spot_prices", {"instance_type": instance_type, "zone": zone}


def _reset_spot_prices(instance_type: str = "*", zone: str = "*") -> None:
    CHANGES[:] = [
        one
        for one in CHANGES
        if instance_type != "*" and (one.instance_type, one.zone) != (instance_type, zone)
    ]


def _spot_prices() -> list[dict[str, str]]:
    return [
        {"instance_type": change.instance_type, "zone": change.zone, "usd": str(change.usd)}
        for change in CHANGES
    ]


def _give_bucket(bucket: str, account: str) -> Undo:
    before = buckets.FOREIGN.pop(bucket, "")
    if account:
        buckets.FOREIGN[bucket] = account
    return "give_bucket", {"bucket": bucket, "account": before}
