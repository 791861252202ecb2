"""The allow list of P8 is what our stacks make: held against every golden stack, both ways."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask._policy.shapes import Allowed, Shape
from terradask._policy.stack_shapes import COMPANIONS, DATA, RESOURCES
from terradask_modules.iam import listed

from .conftest import Synth
from .golden_settings import CLUSTERS, NETWORKS
from .policy_forms import FORMS, found, rules_of

GOLDEN = [
    json.loads(path.read_text()) for path in Path(__file__).with_name("golden").glob("*.tf.json")
]
SECTIONS = {"resource": RESOURCES, "data": DATA}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*NETWORKS, *(f"a cluster: {name}" for name in CLUSTERS)])
def test_every_golden_stack_fits(synth: Synth, name: str, form: str) -> None:
    cluster = name.removeprefix("a cluster: ")
    given = CLUSTERS[cluster] if cluster != name else NETWORKS[name]
    stack = synth("etl" if cluster != name else "network", **given)

    told = found(FORMS[form](stack), workspace_rules=rules_of(**given))
    assert [each for each in told if each.check in ("P6", "P8")] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_is_allowed_that_no_stack_makes(section: str) -> None:
    made = {kind for stack in GOLDEN for kind in stack.get(section, {})}

    assert set(SECTIONS[section]) == made


@pytest.mark.parametrize("section", SECTIONS)
def test_attributes_are_those_that_stacks_set_and_demanded_where_all_set_them(section: str) -> None:
    for kind, shape in SECTIONS[section].items():
        blocks: Counter[str] = Counter()
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for stack in GOLDEN:
            for values in stack.get(section, {}).get(kind, {}).values():
                _count(values, "", blocks, seen)
        for path, allowed_here in _blocks(shape, ""):
            set_somewhere = set(seen[path])
            set_everywhere = {name for name, times in seen[path].items() if times == blocks[path]}
            assert set(allowed_here) == set_somewhere, (kind, path)
            demanded = {name for name, allowed in allowed_here.items() if not allowed.optional}
            # Objects' order of creation, and Terraform's own checks: demanded by no shape.
            harmless = {"depends_on", "lifecycle"}
            assert demanded == set_everywhere - harmless, (kind, path)


def test_companions_are_in_every_stack_that_has_their_like() -> None:
    for kind, companions in COMPANIONS.items():
        for stack in GOLDEN:
            if kind in stack["resource"]:
                assert set(companions) <= set(stack["resource"]), kind


def _blocks(shape: Shape, path: str) -> Iterator[tuple[str, Shape]]:
    """Yield every shape of a block inside a shape, with its path."""
    yield path, shape
    for name, allowed in shape.items():
        for each in allowed.values:
            if isinstance(each, Mapping):
                yield from _blocks(each, f"{path}.{name}")


def _count(values: Any, path: str, blocks: Counter[str], seen: dict[str, Counter[str]]) -> None:
    if not isinstance(values, Mapping):
        return
    blocks[path] += 1
    for name, value in values.items():
        if name == "//":
            continue
        seen[path][name] += 1
        for each in listed(value):
            _count(each, f"{path}.{name}", blocks, seen)


def test_an_id_that_is_known_before_the_document_names_it_is_no_finding(synth: Synth) -> None:
    """As of a security group that exists, while other parts of the network are made again."""
    plan = FORMS["planned"](synth("network"))
    for entry in plan["resource_changes"]:
        if entry["type"] == "aws_launch_template":
            entry["change"]["after"]["network_interfaces"][0]["security_groups"] = ["sg-0123"]
            entry["change"]["after_unknown"]["network_interfaces"] = [{}]

    assert found(plan) == []


def test_a_shape_without_a_stack_would_be_noticed() -> None:
    blocks = dict(_blocks({"a": Allowed(({"b": Allowed((1,))},))}, ""))
    assert set(blocks) == {"", ".a"}
