"""Findings as text, JSON and SARIF."""

from __future__ import annotations

import json
from typing import Any

from terradask.policy import PolicyFinding, Waived, to_json, to_sarif, to_text

ERROR = PolicyFinding(
    "P2", "error", "aws_security_group_rule.office", "lets 0.0.0.0/0 in", "name addresses"
)
WARNING = PolicyFinding("main.size", "warning", "aws_vpc.this", "is large")
NOTE = PolicyFinding("waiver", "note", "", "the waiver of P3 for * covers nothing", "remove it")
WAIVED = PolicyFinding("P3", "error", "aws_launch_template.worker", "answers IMDSv1", "x").waive(
    Waived("until NAT is there", "2027-01-01")
)
ALL = (ERROR, WARNING, NOTE, WAIVED)


def test_text_says_what_is_wrong_and_what_to_do() -> None:
    assert to_text(ALL) == (
        "error   P2  aws_security_group_rule.office: lets 0.0.0.0/0 in\n"
        "        to do: name addresses\n"
        "warning main.size  aws_vpc.this: is large\n"
        "note    waiver  the plan: the waiver of P3 for * covers nothing\n"
        "        to do: remove it\n"
        "waived  P3  aws_launch_template.worker: answers IMDSv1\n"
        "        waived until 2027-01-01: until NAT is there\n"
        "policy: 1 error, 1 warning, 1 note, 1 waived\n"
    )
    assert to_text(()) == "policy: no findings\n"
    assert to_text((ERROR, ERROR)).endswith("policy: 2 errors\n")


def test_json_holds_every_field() -> None:
    document = json.loads(to_json(ALL))

    assert document["format"] == 1
    assert document["blocking"] is True
    assert document["counts"] == {"error": 1, "warning": 1, "note": 1, "waived": 1}
    assert document["findings"] == [json.loads(json.dumps(finding.as_dict())) for finding in ALL]
    assert json.loads(to_json((WAIVED, WARNING)))["blocking"] is False


def sarif(*findings: PolicyFinding, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(to_sarif(findings, version="0.1.0", **more))
    return document


def test_sarif_has_what_its_schema_requires() -> None:
    document = sarif(*ALL)

    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "terradask"
    for rule in driver["rules"]:
        assert rule["id"]
        for text in ("shortDescription", "fullDescription", "help"):
            assert rule[text]["text"]
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    assert len(run["results"]) == len(ALL)
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in {"none", "note", "warning", "error"}
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        # Code hosts refuse results without a file and a line.
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "terradask.toml"
        assert location["physicalLocation"]["region"]["startLine"] >= 1
        assert result["partialFingerprints"]


def test_sarif_names_every_check_even_without_findings() -> None:
    (run,) = sarif()["runs"]

    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert run["results"] == []
    assert rules.keys() == {
        "P1",
        "P2",
        "P3",
        "P4",
        "P5",
        "P6",
        "P7",
        "P8",
        "jupyter",
        "cost",
        "waiver",
    }
    assert all(
        rule["helpUri"].startswith("https://")
        for rule in rules.values()
        if rule["id"].startswith("P")
    )


def test_sarif_suppresses_what_is_waived() -> None:
    results = {result["ruleId"]: result for result in sarif(*ALL)["runs"][0]["results"]}

    assert [name for name, result in results.items() if "suppressions" in result] == ["P3"]
    assert results["P3"]["suppressions"] == [
        {
            "kind": "external",
            "status": "accepted",
            "justification": "until NAT is there (until 2027-01-01)",
        }
    ]


def test_sarif_tells_results_of_several_stacks_apart() -> None:
    prints = [
        sarif(ERROR, stack=stack)["runs"][0]["results"][0]["partialFingerprints"]
        for stack in ("network", "etl", "network")
    ]

    assert prints[0] == prints[2] != prints[1]
    assert sarif(ERROR, stack="etl")["runs"][0]["automationDetails"] == {"id": "terradask/etl/"}
    logical = sarif(ERROR)["runs"][0]["results"][0]["locations"][0]["logicalLocations"]
    assert logical == [{"fullyQualifiedName": "aws_security_group_rule.office", "kind": "resource"}]
