"""Secrets that policy finds by Terraform's marks, in states, and in texts inside of texts."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from terradask._common.decoding import layers
from terradask.policy import PolicyFinding, evaluate, secrets_in_state
from terradask_stacks.settings import PolicySettings

from .policy_plans import TODAY, found, plan, resource


def test_what_terraform_marks_as_sensitive_is_found_without_being_told() -> None:
    document = plan(
        resource(
            "aws_x_y.a",
            {"note": "correct-horse", "size": 5},
            after_sensitive={"note": True, "size": True},
        )
    )

    finding, *others = evaluate(document, settings=PolicySettings(), today=TODAY)
    assert {one.check for one in others} == {"P8"}
    assert finding.message == "note holds a value that Terraform marks as sensitive"


def test_a_secret_that_only_the_apply_will_tell_is_found_by_its_mark() -> None:
    configuration = {
        "resources": [
            {
                "address": "aws_x_y.a",
                "expressions": {"note": {"references": ["random_password.x.result"]}},
            }
        ]
    }
    document = plan(
        resource("aws_x_y.a", {}, after_unknown={"note": True}, after_sensitive={"note": True}),
        configuration=configuration,
    )

    assert found(document) == [("P5", "aws_x_y.a")]


# ---- the state -----------------------------------------------------------------------------------


KEY = (
    b"-----BEGIN PRIVATE "
    b"KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQ\nZZZZZZ\n-----END PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    "held",
    [
        KEY.decode(),
        base64.b64encode(KEY).decode(),
        json.dumps({"nested": json.dumps({"key": KEY.decode()})}),
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQ",
    ],
)
def test_a_key_in_a_state_is_found_however_it_is_written(held: str) -> None:
    state = json.dumps({"version": 4, "resources": [{"instances": [{"attributes": {"x": held}}]}]})

    found = secrets_in_state(state, [b"something else entirely", KEY])

    assert found == (
        PolicyFinding(
            "P5", "error", "", "the state contains secret 2 of those searched for", found[0].advice
        ),
    )
    assert secrets_in_state(state.encode(), [KEY]) != ()


def test_a_state_without_the_key_is_clean() -> None:
    other = (
        "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wOTHER\n-----END "
        "PRIVATE KEY-----"
    )

    assert secrets_in_state(json.dumps({"x": other}), [KEY, b""]) == ()


# ---- texts inside of texts -----------------------------------------------------------------------


def test_layers_are_opened_one_inside_the_other() -> None:
    inner = base64.b64encode(
        gzip.compress(b"x: " + base64.b64encode(b"the innermost of all texts"))
    )

    assert "the innermost of all texts" in list(layers(b"a: " + inner))


def test_a_bomb_is_not_inflated() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)

    assert max(map(len, layers(bomb))) <= 4_000_000
