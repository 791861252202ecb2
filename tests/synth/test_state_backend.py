"""Where the network's stack keeps its state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from terradask_stacks.bare_stack import bare_stack

from .conftest import settings_of

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_in_s3_it_is_encrypted_locked_natively_and_lies_under_the_workspaces_name(
    synth: Callable[..., dict[str, Any]],
):
    backend = synth("network", workspace={"name": "blue"})["terraform"]["backend"]
    expected = {
        "bucket": "terradask-state-123456789012-us-east-1",
        "key": "workspaces/blue/network.tfstate",
        "region": "us-east-1",
        "skip_region_validation": True,
        "encrypt": True,
        "use_lockfile": True,
    }
    assert backend == {"s3": expected}
    state = {"bucket": "ours", "kms_key_arn": KEY}
    given = synth("network", workspace={"name": "blue"}, state=state)["terraform"]["backend"]
    assert given == {"s3": {**expected, "bucket": "ours", "kms_key_id": KEY}}


def test_a_clusters_state_lies_in_the_workspaces_bucket_whatever_the_settings(
    synth: Callable[..., dict[str, Any]],
):
    backends = [
        synth("etl", state=state)["terraform"]["backend"] for state in ({}, {"bucket": "ours"})
    ]
    assert backends[0] == backends[1]
    assert backends[0]["s3"]["use_lockfile"] is True


@pytest.mark.parametrize("stack", ["network", "etl"])
def test_a_stack_names_the_account_to_work_in_and_no_way_into_it(
    synth: Callable[..., dict[str, Any]], stack: str
):
    workspace = {
        "role_arn": "arn:aws:iam::123456789012:role/dask",
        "external_id": "shared-words",
        "profile": "my-own",
    }
    text = json.dumps(made := synth(stack, workspace=workspace))
    (provider,) = made["provider"]["aws"]
    backend = made["terraform"]["backend"]["s3"]
    assert provider["allowed_account_ids"] == backend["allowed_account_ids"] == ["123456789012"]
    assert not [word for word in ("role/dask", "shared-words", "my-own") if word in text]
    settings, answers = settings_of(stack, workspace=workspace)
    lock = answers.network if stack == "network" else answers.clusters[stack]
    bare = bare_stack(stack, settings, settings.workspace.where(lock.account, lock.partition))
    assert bare == {key: made[key] for key in ("provider", "terraform")}
