"""``terradask types`` and ``terradask.list_instance_types``: what they say of what was found."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import terradask
from terradask._catalog.instance_types import listing
from terradask._catalog.instance_types.model import Catalog, read_types
from terradask._catalog.prices.prices import PriceSheet
from terradask.cli import run

TYPES = read_types(json.loads((Path(__file__).parent / "data/instance_types.json").read_text()))
ZONES = {"us-east-1a": frozenset(TYPES), "us-east-1b": frozenset({"m6i.xlarge"})}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Types and prices without AWS, and what was asked for."""
    asked: dict[str, Any] = {}
    now = datetime.datetime.now(datetime.UTC)

    class Prices:
        def __init__(self, _aws: object) -> None:
            pass

        def of_region(self, market: str, *, refresh: bool) -> PriceSheet:
            asked[market] = refresh
            if market == "spot":
                return PriceSheet(
                    "spot", {"us-east-1b": {"m6i.xlarge": Decimal("0.07")}}, "EC2", now
                )
            return PriceSheet(
                "on-demand",
                {"us-east-1": {"m6i.xlarge": Decimal("0.192")}},
                "AWS Price List API",
                now,
                "AWS doesn't answer",
            )

    def load_catalog(session: Any, *, refresh: bool) -> Catalog:
        asked.update(region=session.region, catalog=refresh)
        return Catalog(session.region, TYPES, ZONES, now - datetime.timedelta(hours=3))

    monkeypatch.setattr(listing, "load_catalog", load_catalog)
    monkeypatch.setattr(listing, "AwsPriceList", Prices)
    monkeypatch.delenv("TERRADASK_WORKSPACE__REGION", raising=False)
    monkeypatch.chdir(tmp_path)
    return asked


def test_a_table_with_prices_and_the_catalogs_age(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["types", "m6i", "g6f", "i3"]) == 0
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[0][:4] == ["TYPE", "CPU", "MEMORY", "GIB"]
    assert rows[1] == [
        "m6i.xlarge",
        "4",
        "16",
        "-",
        "x86_64",
        "Up",
        "to",
        "12.5",
        "Gigabit",
        "-",
        "0.1920",
    ]
    assert rows[2][:7] == ["g6f.large", "2", "8", "1", "L4", "(0.125", "of"]
    assert rows[3][-2:] == ["475", "-"]
    assert f"3 of {len(TYPES)} types in us-east-1, fetched 3 h ago" in said.err
    assert (
        "prices on demand: AWS Price List API, 0 s ago; could not be fetched again: AWS doesn't "
        "answer"
    ) in said.err


def test_spot_prices_stand_by_zone(capsys: pytest.CaptureFixture[str], aws: dict[str, Any]) -> None:
    assert run(["types", "m6i.xlarge", "--spot", "--refresh"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.endswith("SPOT US-EAST-1A  SPOT US-EAST-1B")
    assert row.split()[-2:] == ["-", "0.0700"]
    assert aws == {"region": "us-east-1", "catalog": True, "on-demand": True, "spot": True}


def test_json_has_exact_prices(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                "types",
                "--cpu",
                "4",
                "--memory",
                "16GiB",
                "--zone",
                "us-east-1b",
                "--x86",
                "--json",
            ]
        )
        == 0
    )
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["name"], one["hourly_usd"], one["zones"]) == (
        "m6i.xlarge",
        "0.192",
        ["us-east-1a", "us-east-1b"],
    )


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--cpu=x", "cores is not a number of cores"),
        ("--gpu-type=L5", "gpu_type is not a GPU"),
        ("--zone=us-east-1q", "zone"),
    ],
)
def test_what_there_is_not_is_bad_input(
    capsys: pytest.CaptureFixture[str], option: str, problem: str
) -> None:
    assert run(["types", option, "--json"]) == 2
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert error["error"] == "InvalidInput"
    assert problem in error["problem"]


def test_python_has_the_same_filters(aws: dict[str, Any]) -> None:
    found = terradask.list_instance_types(
        "m*", cores=[2, 4], arm=False, zone="us-east-1b", region="eu-west-1"
    )
    assert [(one.name, one.hourly_usd) for one in found] == [("m6i.xlarge", None)]
    assert aws == {"region": "eu-west-1", "catalog": False, "on-demand": False}
