"""What docs/instance-types.md shows of asking, done."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from terradask._catalog.instance_types.choose import choose
from terradask._catalog.instance_types.model import Supply
from terradask.errors import NoMatchingType
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.settings.hardware import DEFAULT_INSTANCE_TYPES

from .hardware_facts import catalog, prices

PAGE = (
    (Path(__file__).parents[2] / "docs/instance-types.md")
    .read_text(encoding="utf-8")
    .partition("## Asking")[2]
    .partition("\n## ")[0]
)


def test_the_toml_is_valid_and_can_be_had():
    settings = Settings.model_validate(
        tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    )
    assert set(settings.clusters) == {"training", "reports"}
    for cluster in settings.clusters.values():
        supply = Supply.of(catalog(), prices())
        assert choose(cluster.hardware_requests["workers"], supply).types


def test_the_refused_ask_is_refused_as_shown():
    (call,) = re.findall(r">>> Cluster\((.*)\)", PAGE)
    asked = eval(f"dict({call})")
    with pytest.raises(NoMatchingType) as caught:
        choose(
            ClusterSettings(**asked).hardware_requests["workers"],
            Supply.of(catalog(), prices(), zones=["us-east-1a"]),
        )
    # Prices are of their day.
    plain = [re.sub(r"\$[\d.…]+", "$", line) for line in (f"NoMatchingType: {caught.value}", PAGE)]
    assert plain[0] in plain[1]


def test_the_default_is_the_one_that_is_shown():
    assert (
        f"`{DEFAULT_INSTANCE_TYPES[0]}`, then "
        f"{', '.join(f'`{name}`' for name in DEFAULT_INSTANCE_TYPES[1:])}"
    ) in PAGE
