"""Switches of AWS and of the network: what they do now and then, and moto never, on demand."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from terradask_simulator.aws.endpoint.lost_answers import Loss, LostAnswers
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.errors import EmbeddedAwsError
from terradask_simulator.aws.fidelity import clock, spot
from terradask_simulator.aws.fidelity.account_state import current_state, set_state
from terradask_simulator.aws.fidelity.bucket_owners import foreign_owners, set_owner
from terradask_simulator.aws.fidelity.capacity import SHORTAGES, Shortage
from terradask_simulator.aws.fidelity.delays import Delays, current_delays, set_delays
from terradask_simulator.aws.fidelity.launch_ends import current_reason, set_reason
from terradask_simulator.aws.fidelity.lingering import current_linger, set_linger
from terradask_simulator.aws.fidelity.log_events import log_delay, set_log_delay
from terradask_simulator.aws.fidelity.pricing_spot import CHANGES, PriceChange
from terradask_simulator.aws.fidelity.quotas import applied_quotas, set_quota
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.fidelity.unsettled_buckets import (
    Settling,
    current_settling,
    set_settling,
)
from terradask_simulator.aws.fidelity.vcpu_limits import Enforcement
from terradask_simulator.aws.fidelity.visibility import Lag, current_lag, set_lag
from terradask_simulator.aws.fidelity.young_buckets import Youth, current_youth, set_youth
from terradask_simulator.aws.network import LoopbackNetwork
from terradask_simulator.aws.switchboard import Switch, Undo

__all__ = ["AwsSwitches"]


class AwsSwitches:
    """Switches of AWS and of the network."""

    def __init__(
        self,
        throttle: Throttle,
        lost_answers: LostAnswers,
        signatures: Signatures,
        network: LoopbackNetwork,
    ) -> None:
        self._throttle = throttle
        self._lost_answers = lost_answers
        self._signatures = signatures
        self._network = network
        self.by_name: Mapping[str, Switch] = {
            "no_capacity": self._no_capacity,
            "allow_capacity": self._allow_capacity,
            "set_quota": self._set_quota,
            "enforce_quotas": self._enforce_quotas,
            "refuse_account": self._refuse_account,
            "set_spot_price": self._set_spot_price,
            "reset_spot_prices": self._reset_spot_prices,
            "interrupt_spot": self._interrupt_spot,
            "recommend_rebalance": self._recommend_rebalance,
            "throttle": self._throttle_calls,
            "delay_launches": self._delay_launches,
            "cancel_launches": self._cancel_launches,
            "linger_terminating": self._linger_terminating,
            "hide_instances": self._hide_instances,
            "hide_objects": self._hide_objects,
            "unsettle_buckets": self._unsettle_buckets,
            "give_bucket": self._give_bucket,
            "delay_logs": self._delay_logs,
            "drop_answers": self._drop_answers,
            "expire_credentials": self._expire_credentials,
            "skew_clock": self._skew_clock,
            "cut_network": self._cut_network,
        }

    def table(self) -> dict[str, Any]:
        """Return how they stand; call it with the lock held."""
        delays = current_delays()
        return {
            "no_capacity": [asdict(shortage) for shortage in SHORTAGES],
            "set_quota": applied_quotas(),
            "enforce_quotas": Enforcement.on,
            "refuse_account": current_state(),
            "set_spot_price": [
                {"instance_type": change.instance_type, "zone": change.zone, "usd": str(change.usd)}
                for change in CHANGES
            ],
            "throttle": self._throttle.factor,
            "delay_launches": {"factor": delays.factor, "seed": delays.seed},
            "cancel_launches": current_reason(),
            "linger_terminating": current_linger(),
            "hide_instances": asdict(current_lag()),
            "hide_objects": asdict(current_youth()),
            "unsettle_buckets": asdict(current_settling()),
            "give_bucket": foreign_owners(),
            "delay_logs": log_delay(),
            "drop_answers": self._loss(),
            "expire_credentials": sorted(self._signatures.expired),
            "skew_clock": {
                "signatures": self._signatures.ahead_seconds,
                "dates": clock.ahead_seconds(),
            },
        }

    def _no_capacity(self, instance_type: str, zone: str, market: str, beyond: int) -> Undo:
        if market not in ("*", "on-demand", "spot"):
            raise EmbeddedAwsError(
                "There is no such market", given=market, allowed="on-demand, spot"
            )
        shortage = Shortage(instance_type, zone, market, int(beyond))
        SHORTAGES.append(shortage)
        return "allow_capacity", asdict(shortage)

    def _allow_capacity(self, **shortage: Any) -> Undo:
        if not shortage:
            SHORTAGES.clear()
        elif Shortage(**shortage) in SHORTAGES:
            SHORTAGES.remove(Shortage(**shortage))
        return None

    def _set_quota(self, quota_code: str, value: float, service_code: str) -> Undo:
        before = set_quota(service_code, quota_code, float(value))
        return "set_quota", {
            "quota_code": quota_code,
            "value": before,
            "service_code": service_code,
        }

    def _enforce_quotas(self, on: bool) -> Undo:
        before, Enforcement.on = Enforcement.on, on
        return "enforce_quotas", {"on": before}

    def _refuse_account(self, state: str) -> Undo:
        return "refuse_account", {"state": set_state(state)}

    def _set_spot_price(self, instance_type: str, usd: str, zone: str) -> Undo:
        CHANGES.append(
            PriceChange(instance_type, zone, Decimal(usd), datetime.datetime.now(datetime.UTC))
        )
        return "reset_spot_prices", {"instance_type": instance_type, "zone": zone}

    def _reset_spot_prices(self, instance_type: str = "*", zone: str = "*") -> Undo:
        CHANGES[:] = [
            one
            for one in CHANGES
            if instance_type != "*" and (one.instance_type, one.zone) != (instance_type, zone)
        ]
        return None

    def _interrupt_spot(self, instance_id: str, notice_seconds: float) -> Undo:
        spot.interrupt(instance_id, float(notice_seconds))
        return None

    def _recommend_rebalance(self, instance_id: str) -> Undo:
        spot.recommend_rebalance(instance_id)
        return None

    def _throttle_calls(self, factor: float) -> Undo:
        return "throttle", {"factor": self._throttle.switch(float(factor))}

    def _delay_launches(self, factor: float, seed: int) -> Undo:
        before = set_delays(Delays(float(factor), int(seed)))
        return "delay_launches", {"factor": before.factor, "seed": before.seed}

    def _cancel_launches(self, reason: str) -> Undo:
        return "cancel_launches", {"reason": set_reason(reason)}

    def _linger_terminating(self, seconds: float) -> Undo:
        return "linger_terminating", {"seconds": set_linger(float(seconds))}

    def _hide_instances(self, seconds: float, seed: int) -> Undo:
        before = set_lag(Lag(float(seconds), int(seed)))
        return "hide_instances", asdict(before)

    def _hide_objects(self, share: float, seconds: float, seed: int) -> Undo:
        before = set_youth(Youth(float(share), float(seconds), int(seed)))
        return "hide_objects", asdict(before)

    def _unsettle_buckets(self, share: float, seconds: float, seed: int) -> Undo:
        before = set_settling(Settling(float(share), float(seconds), int(seed)))
        return "unsettle_buckets", asdict(before)

    def _give_bucket(self, bucket: str, account: str) -> Undo:
        return "give_bucket", {"bucket": bucket, "account": set_owner(bucket, account)}

    def _delay_logs(self, seconds: float) -> Undo:
        return "delay_logs", {"seconds": set_log_delay(float(seconds))}

    def _drop_answers(self, action: str, share: float, times: int, seed: int) -> Undo:
        before = self._loss()
        self._lost_answers.switch(Loss(action, float(share), int(times), int(seed)))
        return "drop_answers", before

    def _loss(self) -> dict[str, Any]:
        loss = self._lost_answers.loss
        return {"action": loss.action, "share": loss.share, "times": loss.times, "seed": loss.seed}

    def _expire_credentials(self, access_key: str, on: bool = True) -> Undo:
        change = self._signatures.expired.add if on else self._signatures.expired.discard
        change(access_key)
        return "expire_credentials", {"access_key": access_key, "on": not on}

    def _skew_clock(self, seconds: float, refusing: bool = True) -> Undo:
        if refusing:
            before, self._signatures.ahead_seconds = self._signatures.ahead_seconds, float(seconds)
        else:
            before = clock.set_ahead(float(seconds))
        return "skew_clock", {"seconds": before, "refusing": refusing}

    def _cut_network(self, instance_id: str, seconds: float) -> Undo:
        self._network.cut(instance_id, float(seconds))
        return "cut_network", {"instance_id": instance_id, "seconds": 0.0}
