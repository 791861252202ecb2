"""Every defect that is planted into our own stacks is found, in the stack as it is synthesised
and in a plan of it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from terradask._plans.policy.checks import CHECKS
from terradask.policy import RoleRules

from .planted_beyond import BEYOND_STACK
from .planted_defects import SEEDS, TOLD_ONLY
from .planting import ACCESS_KEY, BOUNDARY, PEM, admits, boots_with, template
from .policy_forms import FORMS, Document, found, found_unmasked

CASES = [(check, defect) for check, defects in SEEDS.items() for defect in defects]
#: The checks whose defects are secrets, which findings must not show.
SECRETS = {"P1", "P5"}


@pytest.mark.parametrize(
    ("check", "defect"), CASES, ids=[f"{check}-{defect}" for check, defect in CASES]
)
def test_a_planted_defect_is_found(network: Document, check: str, defect: str) -> None:
    seeded = copy.deepcopy(network)
    SEEDS[check][defect](seeded)
    finds = found if check in SECRETS else found_unmasked

    for form, written in FORMS.items():
        told = finds(written(seeded), network)

        assert (check, "warning" if defect in TOLD_ONLY else "error") in {
            (finding.check, finding.severity) for finding in told
        }, form
        assert not [
            finding
            for finding in told
            if any(
                secret in str(finding) for secret in (ACCESS_KEY, PEM, "correct-horse", "hunter2")
            )
        ], form


@pytest.mark.parametrize("defect", BEYOND_STACK)
def test_what_only_a_stack_shows_is_found_there(network: Document, defect: str) -> None:
    seeded = copy.deepcopy(network)
    BEYOND_STACK[defect](seeded)

    assert {finding.check for finding in found(seeded, network)} == {"P8"}


def test_every_check_has_defects_and_the_documentation_counts_them() -> None:
    assert SEEDS.keys() == {check.id for check in CHECKS}
    page = (Path(__file__).parents[2] / "docs/policy.md").read_text()
    rows = re.findall(r"^\| (P\d) \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    told = {check: (int(planted), int(found)) for check, planted, found in rows}
    # Each of them is planted, and found, in both forms: above.
    assert told == {check: (len(FORMS) * len(defects),) * 2 for check, defects in SEEDS.items()}


@pytest.mark.parametrize("form", FORMS)
def test_the_three_defects_that_scanners_pass_are_found_together(
    network: Document, form: str
) -> None:
    seeded = copy.deepcopy(network)
    boots_with(f"export KEY={ACCESS_KEY}\n{PEM}")(seeded)
    template(seeded)["block_device_mappings"][0]["ebs"].update(encrypted="false")
    admits({"cidr_ipv4": "0.0.0.0/0"}, {"cidr_ipv6": "::/0"})(seeded)

    told = [
        (finding.check, finding.severity)
        for finding in found(FORMS[form](seeded), network)
        if finding.check != "P8"
    ]

    assert told == [
        ("P1", "error"),
        ("P1", "error"),
        ("P2", "error"),
        ("P2", "error"),
        ("P3", "error"),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_password_in_a_clusters_environment_is_found(
    synth: Callable[..., Document], form: str
) -> None:
    environ = {"DB_PASSWORD": "correct-horse", "OMP_NUM_THREADS": "1"}
    ours = synth("etl", cluster={"environ": environ})
    told = found(FORMS[form](ours), ours)

    assert [(finding.check, finding.address) for finding in told] == [
        ("P5", "aws_s3_object.descriptor")
    ]
    assert "content.settings.environ.DB_PASSWORD" in told[0].message
    assert "correct-horse" not in str(told)


@pytest.mark.parametrize("form", FORMS)
def test_roles_carry_the_boundary_and_the_name_that_the_settings_demand(
    network: Document, form: str
) -> None:
    bounded = copy.deepcopy(network)
    for role in bounded["resource"]["aws_iam_role"].values():
        role["permissions_boundary"] = BOUNDARY
    ours = RoleRules(permissions_boundary=BOUNDARY, name_prefix="terradask-")

    assert found(FORMS[form](bounded), bounded, role_rules=ours) == []
    assert [finding.check for finding in found(FORMS[form](network), network, role_rules=ours)] == [
        "P6",
        "P6",
    ]
    assert [
        finding.check
        for finding in found(
            FORMS[form](bounded), bounded, role_rules=RoleRules(name_prefix="acme-")
        )
    ] == ["P6", "P6"]


@pytest.mark.parametrize("form", FORMS)
def test_a_policy_that_keeps_others_from_a_secret_opens_nothing(
    synth: Callable[..., Document], form: str
) -> None:
    ours = synth("etl", cluster={"private_to_creator": True})
    assert found(FORMS[form](ours), ours) == []
