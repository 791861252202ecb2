"""Who refuses a call of AWS: read from AWS's own texts, recorded with their sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from terradask._clusters.reach.advice import _ADVICE
from terradask._clusters.reach.refusal import REFUSERS, read_refusal

RECORDED = json.loads((Path(__file__).parent / "data/aws_refusals.json").read_text())


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: f"{one['by']}-{one['call']}")
def test_aws_says_who_refuses(one: dict[str, Any]) -> None:
    refusal = read_refusal(one["call"], one["code"], one["message"])
    if one["by"] is None:
        assert refusal is None
        return
    assert refusal is not None
    assert refusal.by == one["by"]
    assert refusal.action == one["action"]
    assert refusal.side == one.get("side")
    assert refusal.is_explicit is one.get("explicit", False)
    assert refusal.policy == one.get("policy")
    if "resource" in one:
        assert refusal.resource == one["resource"]


def test_no_error_is_no_refusal_and_each_refuser_has_words() -> None:
    assert read_refusal("s3:GetObject", None) is None
    assert {one["by"] for one in RECORDED} - {None} <= REFUSERS.keys()
    assert _ADVICE.keys() <= REFUSERS.keys()
    assert all(one["source"] for one in RECORDED)
