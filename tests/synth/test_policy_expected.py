"""P8: what terradask synthesises has no findings against itself, and whatever differs has."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from terradask._plans.policy.expected import Difference, differences

from .conftest import Synth
from .golden_settings import CLUSTERS, NETWORKS
from .policy_forms import FORMS, Document, found, rules_of


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*NETWORKS, *(f"a cluster: {name}" for name in CLUSTERS)])
def test_every_golden_stack_fits(synth: Synth, name: str, form: str) -> None:
    cluster = name.removeprefix("a cluster: ")
    given = CLUSTERS[cluster] if cluster != name else NETWORKS[name]
    stack = synth("etl" if cluster != name else "network", **given)

    told = found(FORMS[form](stack), stack, workspace_rules=rules_of(**given))
    assert [each for each in told if each.check in ("P6", "P8")] == []


@pytest.mark.parametrize("form", FORMS)
def test_other_settings_make_another_stack(synth: Synth, network: Document, form: str) -> None:
    told = found(FORMS[form](synth("network", network={"nat": "none"})), network)

    messages = {each.address: each.message for each in told if each.check == "P8"}
    missing = {address.partition(".")[0] for address, it in messages.items() if "missing" in it}
    assert missing >= {"aws_nat_gateway", "aws_eip"}
    assert messages["aws_vpc.this"].startswith("leaves out tags.team, which terradask sets to rese")


@pytest.mark.parametrize("form", FORMS)
def test_without_the_expected_stack_the_plan_stops(network: Document, form: str) -> None:
    (finding,) = found(FORMS[form](network), None)

    assert (finding.check, finding.blocking) == ("P8", True)
    assert "Workspace.synth" in finding.advice


def test_an_id_that_is_known_before_the_document_names_it_is_no_finding(network: Document) -> None:
    """As of a security group that exists, while other parts of the network are made again."""
    plan = FORMS["planned"](network)
    for entry in plan["resource_changes"]:
        if entry["type"] == "aws_launch_template":
            entry["change"]["after"]["network_interfaces"][0]["security_groups"] = ["sg-0123"]
            entry["change"]["after_unknown"]["network_interfaces"] = [{}]

    assert found(plan, network) == []


def _replans(address: str, **after: Any) -> Callable[[Document], None]:
    def forge(plan: Document) -> None:
        for entry in plan["resource_changes"]:
            if entry["address"] == address:
                entry["change"]["after"].update(after)

    return forge


def _adds(plan: Document) -> None:
    (one,) = (each for each in plan["resource_changes"] if each["address"] == "aws_vpc.this")
    plan["resource_changes"].append({**one, "address": "aws_vpc.this[1]"})
    plan["planned_values"]["root_module"]["resources"].append(
        {"address": "aws_vpc.this[1]", "mode": "managed"}
    )


@pytest.mark.parametrize(
    ("address", "forge", "says"),
    [
        (
            "aws_s3_bucket.workspace",
            _replans("aws_s3_bucket.workspace", bucket="theirs"),
            "sets bucket to theirs, where terradask sets terradask-default-",
        ),
        (
            "aws_s3_object.host-wheel",
            _replans("aws_s3_object.host-wheel", source="/etc/passwd"),
            "sets source to /etc/passwd, where terradask sets host/",
        ),
        ("aws_vpc.this[1]", _adds, "isn't part of terradask's stack"),
    ],
)
def test_a_plan_that_does_other_things_than_its_configuration_is_found(
    network: Document, address: str, forge: Callable[[Document], None], says: str
) -> None:
    plan = FORMS["planned"](network)
    forge(plan)

    told = {each.address: each.message for each in found(plan, network) if each.check == "P8"}
    assert told[address].startswith(says)


@pytest.mark.parametrize(
    ("full_name", "told"),
    [
        ("registry.terraform.io/hashicorp/aws", []),
        ("registry.opentofu.org/hashicorp/aws", []),
        (
            "registry.example.org/hashicorp/aws",
            ["is a provider that terradask doesn't use: registry.example.org/hashicorp/aws"],
        ),
        ("registry.opentofu.org/own/aws", ["is a provider that terradask doesn't use: own/aws"]),
    ],
)
def test_a_plan_has_the_provider_of_either_programs_registry(
    network: Document, full_name: str, told: list[str]
) -> None:
    plan = FORMS["planned"](network)
    plan["configuration"]["provider_config"]["aws"]["full_name"] = full_name

    assert [each.message for each in found(plan, network) if each.check == "P8"] == told


def test_what_the_provider_writes_otherwise_is_no_finding(network: Document) -> None:
    """Flags as text, JSON without blanks and in another order; what terradask leaves to others."""
    plan = FORMS["planned"](network)
    for entry in plan["resource_changes"]:
        after = entry["change"]["after"]
        for name, value in after.items():
            if isinstance(value, bool):
                after[name] = str(value).lower()
            elif isinstance(value, str) and value.startswith("{"):
                after[name] = _rewritten(value)

    assert [each for each in found(plan, network) if each.check == "P8"] == []


def _rewritten(policy: str) -> str:
    held = json.loads(policy)
    if isinstance(held.get("Statement"), list):
        held["Statement"].reverse()
    return json.dumps(held, separators=(",", ":"), sort_keys=True)


def test_values_of_secrets_are_not_shown(synth: Synth) -> None:
    ours = synth("etl", cluster={"environ": {"DB_PASSWORD": "correct-horse"}})
    theirs = copy.deepcopy(ours)
    held = theirs["resource"]["aws_s3_object"]["descriptor"]
    held["content"] = held["content"].replace("correct-horse", "hunter2")

    told = [each for each in found(theirs, ours) if each.check == "P8"]
    assert [each.message for each in told] == [
        "sets content.settings.environ.DB_PASSWORD to (sensitive), where terradask sets (sensitive)"
    ]


def test_a_descriptor_has_no_notebook_server_that_its_settings_have_not(synth: Synth) -> None:
    ours, theirs = synth("etl"), copy.deepcopy(synth("etl"))
    held = theirs["resource"]["aws_s3_object"]["descriptor"]
    written = json.loads(held["content"])
    written["scheduler"]["jupyter"] = True
    held["content"] = json.dumps(written)

    told = [each.message for each in found(theirs, ours) if each.check == "P8"]
    assert told == ["sets content.scheduler.jupyter to true, where terradask sets nothing"]


@pytest.mark.parametrize(
    ("expected", "given", "paths"),
    [
        ({"a": [{"b": 1}]}, {"a": {"b": 1}}, []),
        ({"a": 1}, {"a": 1, "b": [], "c": None}, []),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a[0]", "a[1]"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a"]),
        ({"a": '{"b": {"c": 1}}'}, {"a": '{"b": {"c": 2}}'}, ["a.b.c"]),
        # Whoever reads the text may take the first of two: it isn't the same.
        ({"a": '{"b": 1}'}, {"a": '{"b": 2, "b": 1}'}, ["a"]),
        ({"a": True}, {"a": "true"}, ["a"]),
        ({}, {"a": {}}, ["a"]),
    ],
)
def test_differences(expected: Any, given: Any, paths: list[str]) -> None:
    assert [each.path for each in differences(expected, given)] == paths


def test_long_values_are_not_shown() -> None:
    assert str(Difference("a", None, "x" * 81)) == (
        "sets a to a value of 81 characters, where terradask sets nothing"
    )
