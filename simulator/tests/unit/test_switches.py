"""Switches are turned by name as by method, and refuse what they don't take before anybody is
asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from terradask_simulator import SimulatorError, SimulatorInfo, Switches

INFO = SimulatorInfo(
    1,
    0.0,
    1,
    "http://127.0.0.1:1",
    "us-east-1",
    "123456789012",
    "127.64.0.0/16",
    "127.128.0.0/16",
    "",
    boot_hosts=False,
)


class Recorded(Switches):
    """Switches that only remember what the daemon would be told."""

    def __init__(self) -> None:
        super().__init__(INFO)
        self.told: list[tuple[str, dict[str, Any]]] = []

    def _turn(self, name: str, arguments: dict[str, Any]) -> Any:
        self.told.append((name, arguments))
        return [f"undo_{name}", {"of": name}]


def test_a_block_turns_back_what_it_turned_also_when_it_fails() -> None:
    switches = Recorded()
    with (
        pytest.raises(ZeroDivisionError),
        switches.no_capacity("m7i.*", market="spot", beyond=2),
        switches.throttle(0.5),
    ):
        raise ZeroDivisionError
    assert switches.told == [
        ("no_capacity", {"instance_type": "m7i.*", "zone": "*", "market": "spot", "beyond": 2}),
        ("throttle", {"factor": 0.5}),
        ("undo_throttle", {"of": "throttle"}),
        ("undo_no_capacity", {"of": "no_capacity"}),
    ]


def test_a_switch_is_turned_by_its_name() -> None:
    switches = Recorded()
    switches.turn("set_spot_price", instance_type="m7i.large", usd=0.09)
    assert switches.told == [
        ("set_spot_price", {"instance_type": "m7i.large", "usd": "0.09", "zone": "*"})
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("no_capcity", {}, "no_capacity, allow_capacity"),
        ("throttle", {"rate": 1}, "factor"),
        ("interrupt_spot", {}, "instance_id"),
    ],
)
def test_what_a_switch_does_not_take_is_refused_with_what_it_takes(
    name: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(SimulatorError, match=text):
        Recorded().turn(name, **arguments)
