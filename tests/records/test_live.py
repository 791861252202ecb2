"""What an account check writes of an embedded AWS agrees with an embedded AWS."""

from __future__ import annotations

import json

import pytest
import tomlkit

from terradask import Workspace
from terradask._doctor.account_check.account import Account
from terradask._doctor.account_check.network import UserRole, make_bucket_of_state
from terradask._doctor.account_check.place import check_settings
from terradask._doctor.account_check.recorder import Recorder
from terradask._doctor.account_check.steps import Runner, Step
from terradask_simulator import Simulator

from ..simulator.secret_search import Secrets
from .__main__ import main
from .record import parse, read

#: What the check is given, and must not hand on.
GIVEN = {
    "tag": "cost centre of grace",
    "path": "/acme-people/",
    "account": "123456789012",
}
SENT = ("region", "account-plan", "service-roles", "image", "quotas", "bucket", "role", "no-role")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The record of the check's own calls, without Terraform."""
    folder = tmp_path_factory.mktemp("live")
    with Simulator.start(boot_hosts=False) as simulator, simulator.applied():
        user = Workspace.load()
        account = Account(user, zone="us-east-1a", instance_types=["m7i.large"])
        settings = check_settings(
            user.settings,
            "smoke-1a2b",
            account=user.account_id,
            until="2026-11-27T00:00:00Z",
            zone="us-east-1a",
            types=["m7i.large"],
        )
        settings["workspace"]["tags"]["owner"] = GIVEN["tag"]
        settings["network"]["role_path"] = GIVEN["path"]
        (folder / "terradask.toml").write_text(tomlkit.dumps(settings))
        place = Workspace.load(folder)
        role = UserRole(place)
        runner = Runner()
        recorder = Recorder(lambda: runner.current)
        steps = [
            *(step for step in account.steps() if step.name in SENT),
            Step("bucket", "the state's bucket", lambda _: make_bucket_of_state(place)),
            role.step(),
            Step("no-role", "no role is left", lambda _: role.remove()),
        ]
        with recorder.watching():
            assert runner.run(steps), runner.failed
        assert [one.name for one in runner.results] == list(SENT)
        path = folder / "record.json"
        path.write_text(json.dumps(recorder.document("2026-11-27T00:00:00Z")))
    return path


def test_it_has_none_of_what_the_check_was_given(written):
    secrets = Secrets(GIVEN)
    assert secrets.find("record", written.read_bytes()) == []
    assert "acme" not in written.read_text()
    assert "smoke-1a2b" not in written.read_text()


def test_each_step_is_a_case_that_agrees(written, capsys):
    replayed = {case.name for case in read(written).cases if not case.not_replayed}
    assert {"region", "service-roles", "image", "quotas", "bucket", "role"} <= replayed
    assert main([str(written)]) == 0, capsys.readouterr().out


def test_an_answer_of_another_kind_is_found(written, tmp_path, capsys):
    document = json.loads(written.read_text())
    (case,) = [one for one in document["cases"] if one["name"] == "region"]
    (zone, *_), answer = (
        case["calls"][0]["answer"]["AvailabilityZones"],
        case["calls"][0]["answer"],
    )
    zone["State"] = "constrained"
    answer["Quarantined"] = True
    parse(document, "planted")
    path = tmp_path / "planted.json"
    path.write_text(json.dumps(document))
    assert main([str(path), "--name", "region"]) == 1
    said = capsys.readouterr().out
    assert "AvailabilityZones[].State: recorded" in said
    assert "Quarantined: recorded true, ours nothing" in said
