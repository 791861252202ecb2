"""Section ``[limits]``: what it refuses, how it comes into the network's lock and stack, and what
clients read of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._synthesis import resolve_network
from terradask.errors import BaselineError, NoBaseline
from terradask_host.rules.limits import Caps, Limits
from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import LimitsLock, NetworkLock
from terradask_stacks.settings import Settings

from .baselines import ACCOUNT, baseline
from .settings_files import problems, write

ADA = f"arn:aws:iam::{ACCOUNT}:user/ada"
LIMITS = {"workspace": {"hosts": 9}, "owners": {ADA: {"gpus": 0}}}


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"workspace": {"hosts": -1}}, "greater than or equal to 0"),
        ({"workspace": {"hosts": 1.5}}, "a whole number"),
        ({"each_owner": {"hourly_usd": float("inf")}}, "a finite number"),
        ({"each_owner": {"cpus": 4}}, "did you mean vcpus?"),
        ({"workspaces": {"hosts": 1}}, "did you mean workspace?"),
        ({"owners": {"ada": {"hosts": 1}}}, "'ada' is not the ARN of a caller"),
        ({"owners": {"arn:aws:s3:::bucket": {"hosts": 1}}}, "is not the ARN of a caller"),
        # No caller is a role: its sessions are.
        ({"owners": {f"arn:aws:iam::{ACCOUNT}:role/Data": {"hosts": 1}}}, "assumed-role/Data/ada"),
        ({"teams": {"": {"hosts": 1}}}, "a team without a name"),
        ({"teams": {"blue,red": {"hosts": 1}}}, "IAM refuses ','"),
        ({"team_tag": "terradask:cluster"}, "begins with a reserved prefix"),
        ({"team_tag": "a team"}, "the tag key 'a team' can't be used"),
    ],
)
def test_bad_values_are_refused_by_their_name(limits: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(environ={}, overrides={"limits": limits})
    assert says in str(refused.value)


def test_the_place_of_a_bad_value_is_its_own(tmp_path: Path) -> None:
    text = f'[limits.workspace]\nhosts = -1\n[limits.owners."{ADA}"]\ngpus = -1\n'
    found = problems(write(tmp_path, text))
    assert [where.partition(" in ")[0] for where in found] == [
        "limits.workspace.hosts",
        f"limits.owners.{ADA}",
    ]
    assert [where.partition(", at ")[2] for where in found] == ["", "gpus"]


def test_a_limit_at_the_wrong_place_is_told_the_right_one() -> None:
    both = {"limits": {"hosts": 10}, "cluster": {"limits": {"workspace": {"hosts": 10}}}}
    found = problems(overrides=both)
    assert found["argument hosts"].advice == (
        "write it in [limits.workspace], [limits.each_owner] or [limits.each_team]"
    )
    assert found["argument limits"].advice == "write [limits] as a section of its own"


def test_settings_of_clusters_are_no_section_of_their_own(tmp_path: Path) -> None:
    (found,) = problems(write(tmp_path, "[offers.it.cluster]\nn_workers = 1\n")).values()
    assert found.advice == "remove it"


def aws(caller: str = ADA) -> Any:
    return SimpleNamespace(caller_arn=caller, account_id=ACCOUNT, region="us-east-1")


def settings(limits: dict[str, Any]) -> Settings:
    return load_settings(environ={}, overrides={"limits": limits}).settings


def deployed(monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any] | None) -> None:
    def read(*_: object) -> Any:
        if limits is None:
            raise NoBaseline("the network of this workspace isn't deployed")
        return baseline(limits=limits)

    monkeypatch.setattr(resolve_network, "read_baseline", read)


def test_who_changes_them_is_who_has_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(monkeypatch, None)
    first = resolve_network._limits(settings(LIMITS), aws(), None)
    assert first is not None
    assert (first.limits["workspace"], first.set_by) == ({"hosts": 9}, ADA)
    bob = aws(ADA.replace("ada", "bob"))
    lock: Any = SimpleNamespace(limits=first)
    # Another caller plans the same: nothing changes.
    assert resolve_network._limits(settings(LIMITS), bob, lock) == first
    changed = resolve_network._limits(settings({**LIMITS, "each_team": {"gpus": 1}}), bob, lock)
    assert changed is not None
    assert changed.set_by == bob.caller_arn
    assert resolve_network._limits(settings({}), bob, lock) is None


def test_without_a_lock_the_deployed_ones_say_who_has_set_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = json.loads(json.dumps(settings(LIMITS).limits.document))
    deployed(monkeypatch, {**document, "set_by": "arn:x", "set_at": "2026-11-01T00:00:00Z"})
    found = resolve_network._limits(settings(LIMITS), aws(), None)
    assert found == LimitsLock(limits=document, set_by="arn:x", set_at="2026-11-01T00:00:00Z")


def test_clients_read_the_deployed_ones() -> None:
    assert baseline().limits_in_force is None
    found = baseline(limits={"workspace": {"hosts": 9, "later": 1}, "set_by": ADA, "later": 1})
    assert found.limits_in_force == Limits(workspace=Caps(hosts=9), set_by=ADA)
    with pytest.raises(BaselineError, match="don't match their format"):
        _ = baseline(limits={"workspace": {"hosts": "many"}}).limits_in_force


def test_a_lock_without_limits_has_no_word_of_them() -> None:
    lock = NetworkLock(account=ACCOUNT, zones={"us-east-1a": 0}, image_ids={"x86_64": "ami-1"})
    assert "limits" not in lock.model_dump(mode="json")
    assert lock.limits_document == {}
