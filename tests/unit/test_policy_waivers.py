"""Waivers: what they cover, until when, and what is said about those that don't count."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from terradask._plans.policy.checks import CHECKS
from terradask._plans.policy.team import COST_CHECK, JUPYTER_CHECK, WAIVER_CHECK, waive
from terradask.errors import SettingsError
from terradask.policy import PolicyFinding, Waived, blocking
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import PolicySettings, Waiver
from terradask_stacks.settings.policy import BUILT_IN_CHECKS

TODAY = date(2026, 11, 20)
WORKER = PolicyFinding("P3", "error", "aws_launch_template.worker-x86_64", "answers IMDSv1")
KEYED = PolicyFinding("P2", "error", 'aws_security_group_rule.office["a"]', "lets everybody in")
COST = PolicyFinding("cost", "error", "", "too much")


def waiver(**values: Any) -> Waiver:
    return Waiver.model_validate(
        {"check": "P3", "reason": "until NAT is there", "expires": "2027-01-01", **values}
    )


def waived(
    *findings: PolicyFinding, waivers: list[Waiver], stack: str = "network", today: date = TODAY
) -> list[PolicyFinding]:
    return waive(findings, waivers, stack=stack, today=today)


@pytest.mark.parametrize(
    ("finding", "values"),
    [
        (WORKER, {}),
        (WORKER, {"address": "aws_launch_template.worker-x86_64"}),
        (WORKER, {"address": "aws_launch_template.*"}),
        (WORKER, {"address": "*.worker-x86_??"}),
        (WORKER, {"stack": "network"}),
        (KEYED, {"check": "P2", "address": 'aws_security_group_rule.office["a"]'}),
        (KEYED, {"check": "P2", "address": "aws_security_group_rule.office[*]"}),
        (COST, {"check": "cost"}),
    ],
)
def test_a_waiver_covers_what_fits(finding: PolicyFinding, values: dict[str, str]) -> None:
    (found,) = waived(finding, waivers=[waiver(**values)])

    assert found.waived == Waived("until NAT is there", "2027-01-01")
    assert not found.blocking
    assert blocking((found,)) == ()


@pytest.mark.parametrize(
    "values",
    [
        {"check": "P1"},
        {"address": "aws_launch_template"},
        {"address": "worker*"},
        {"address": "aws_launch_template.worker-x86_6[4]"},
        {"address": "aws.launch.template*"},
    ],
)
def test_a_waiver_covers_nothing_else_and_says_so(values: dict[str, str]) -> None:
    first, note = waived(WORKER, waivers=[waiver(**values)])

    assert first == WORKER
    assert (note.check, note.severity) == ("waiver", "note")
    assert "covers nothing" in note.message


def test_a_waiver_of_another_stack_is_none_of_this_ones_business() -> None:
    assert waived(WORKER, waivers=[waiver(stack="etl")]) == [WORKER]
    assert waived(WORKER, waivers=[waiver(stack="net*")])[0].waived


def test_a_waiver_counts_through_its_last_day() -> None:
    last = date(2027, 1, 1)

    assert waived(WORKER, waivers=[waiver()], today=last)[0].waived
    first, warning = waived(WORKER, waivers=[waiver()], today=date(2027, 1, 2))
    assert first.blocking
    assert (warning.check, warning.severity) == ("waiver", "warning")
    assert "expired on 2027-01-01" in warning.message


def test_an_expired_waiver_is_told_even_if_it_would_cover_nothing() -> None:
    assert [finding.severity for finding in waived(waivers=[waiver(expires="2020-01-01")])] == [
        "warning"
    ]


def test_no_waiver_covers_waivers() -> None:
    found = waived(WORKER, waivers=[waiver(expires="2020-01-01"), waiver(check="waiver")])

    assert [(finding.severity, finding.waived) for finding in found] == [
        ("error", None),
        ("warning", None),
        ("note", None),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        {"reason": None},
        {"reason": "  "},
        {"expires": None},
        {"expires": 20270101},
        {"expires": "soon"},
    ],
)
def test_no_waiver_without_a_reason_and_a_day(broken: dict[str, Any]) -> None:
    values = {"check": "P3", "reason": "x", "expires": "2027-01-01", **broken}
    with pytest.raises(ValueError, match=next(iter(broken))):
        PolicySettings.model_validate(
            {"waivers": [{key: value for key, value in values.items() if value is not None}]}
        )


def test_waivers_are_read_from_the_file(tmp_path: Path) -> None:
    text = (
        '[[policy.waivers]]\ncheck = "P3"\naddress = "aws_launch_template.worker-*"\nreason = '
        '"until NAT is there"\nexpires = 2027-01-01\n'
    )
    (tmp_path / "terradask.toml").write_text(text)

    settings = load_settings(tmp_path / "terradask.toml", environ={}).settings.policy

    assert settings.waivers == [waiver(address="aws_launch_template.worker-*")]
    assert settings.waivers[0].expires == date(2027, 1, 1)
    assert tomllib.loads(text)["policy"]["waivers"][0]["expires"] == date(2027, 1, 1)


def test_a_missing_key_is_told_with_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "terradask.toml").write_text('[[policy.waivers]]\ncheck = "P3"\nreason = "x"\n')
    with pytest.raises(
        SettingsError,
        match=(
            r"at 0\.expires: Field required\n.*allowed: Last day of the waiver, such as "
            r"2027-01-01"
        ),
    ):
        load_settings(tmp_path / "terradask.toml", environ={})


def test_a_waiver_names_a_check_that_there_is() -> None:
    others = {JUPYTER_CHECK, COST_CHECK, WAIVER_CHECK}
    assert {*(check.id for check in CHECKS), *others} == set(BUILT_IN_CHECKS)
    for unknown in ("P9", "p3", "deny"):
        with pytest.raises(ValueError, match=r"P1, P2, .*, jupyter, cost, waiver"):
            waiver(check=unknown)


def test_a_waiver_that_is_misspelt_is_refused(tmp_path: Path) -> None:
    (tmp_path / "terradask.toml").write_text(
        '[[policy.waivers]]\nchek = "P3"\nreason = "x"\nexpires = 2027-01-01\n'
    )
    with pytest.raises(SettingsError, match="chek"):
        load_settings(tmp_path / "terradask.toml", environ={})
