"""The dashboards for Grafana ask for every gauge, by the names that the sources have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from terradask_host.gauges import DIMENSIONS, GAUGES, NAMESPACE

FOLDER = Path(__file__).parents[2] / "docs" / "grafana"
SOURCES = ("cloudwatch", "prometheus")
NAMES = [gauge.name for gauge in GAUGES]
#: CloudWatch's units, and Grafana's for them.
UNITS = {
    "Count": "short",
    "Bytes": "bytes",
    "Bytes/Second": "Bps",
    "Percent": "percent",
    "Seconds": "s",
}


def loaded(source: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{source}.json").read_text())
    return found


def targets(source: str) -> list[dict[str, Any]]:
    return [target for panel in loaded(source)["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("source", SOURCES)
def test_grafanas_own_model_reads_it_without_a_loss(source: str) -> None:
    register_default_plugins()
    document = loaded(source)
    read = Dashboard.from_json(document)
    assert json.loads(JSONEncoder().encode(read)) == document


@pytest.mark.parametrize("source", SOURCES)
def test_every_gauge_is_in_a_plot_with_its_unit(source: str) -> None:
    asked = [target["refId"] for target in targets(source)]
    assert sorted(asked) == sorted(NAMES)
    units = {gauge.name: UNITS[gauge.unit] for gauge in GAUGES}
    for panel in loaded(source)["panels"]:
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert {units[target["refId"]] for target in panel["targets"]} == {unit}


def test_cloudwatch_is_asked_for_what_the_host_writes() -> None:
    for target in targets("cloudwatch"):
        assert target["namespace"] == NAMESPACE
        assert target["metricName"] == target["refId"]
        assert target["dimensions"] == {name: f"${name.lower()}" for name in DIMENSIONS}


def test_prometheus_is_asked_for_one_cluster() -> None:
    for target in targets("prometheus"):
        assert target["expr"] == (
            f'{NAMESPACE}_{target["refId"]}{{workspace="$workspace",cluster="$cluster"}}'
        )


@pytest.mark.parametrize("source", SOURCES)
def test_what_it_refers_to_is_one_of_its_variables(source: str) -> None:
    document = loaded(source)
    names = [variable["name"] for variable in document["templating"]["list"]]
    assert names[0] == "source"
    used = re.findall(r"\$(\w+)", json.dumps(document))
    assert set(used) == set(names)
