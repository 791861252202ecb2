"""The command `terradask iam`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click
import pytest

from terradask.cli import run
from terradask.cli._completion import complete_type
from terradask_modules.caller_policies import (
    CallerLimits,
    boundary_policy,
    bounded,
    caller_policies,
)

from .caller_scopes import ACCOUNT, BOUNDARY, ISOLATED, listed, scope


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Work in an empty folder, with neither settings nor credentials."""
    for name in [name for name in os.environ if name.startswith(("TERRADASK_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_prints_policies_without_credentials(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "terradask.toml").write_text(
        f"""
[workspace]
name = "team"
region = "cn-north-1"
[network]
permissions_boundary = "{BOUNDARY}"
role_path = "/platform/"
role_name_prefix = "acme-"
"""
    )
    assert run(["iam", "setup", "--account", ACCOUNT]) == 0
    text = capsys.readouterr().out
    assert list(json.loads(text))[:2] == ["terradask-team-setup-1", "terradask-team-setup-2"]
    assert f"arn:aws-cn:iam::{ACCOUNT}:role/platform/acme-terradask-team-scheduler" in text
    assert f"arn:aws-cn:s3:::terradask-state-{ACCOUNT}-cn-north-1/workspaces/team/*" in text
    assert BOUNDARY in text


def test_command_follows_which_clusters_are_private(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = '[workspace]\nname = "team"\nregion = "eu-west-1"\n'

    def secrets(settings: str) -> list[str]:
        (nowhere / "terradask.toml").write_text(workspace + settings)
        assert run(["iam", "ongoing", "--account", ACCOUNT]) == 0
        return [
            arn.rpartition("/")[2]
            for document in json.loads(capsys.readouterr().out).values()
            for statement in document["Statement"]
            if statement["Sid"] == "MakePrivate"
            for arn in listed(statement["Resource"])
        ]

    assert secrets("[clusters.etl]\n") == []
    private = "private_to_creator = true\n"
    assert secrets(f"[clusters.ml]\n{private}[clusters.etl]\n") == ["ml-??????"]
    assert secrets(f"[cluster]\n{private}[clusters.etl]\n") == ["*"]


def test_command_follows_the_isolation_of_clusters(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "terradask.toml").write_text(
        '[workspace]\nname = "team"\nregion = "eu-west-1"\nisolation = "cluster"\n'
    )
    assert run(["iam", "user", "--account", ACCOUNT]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == caller_policies(ISOLATED, "user")
    assert list(printed) == [
        "terradask-team-user-1",
        "terradask-team-user-2",
        "terradask-team-user-3",
        "terradask-team-user-4",
    ]


def test_command_without_account_needs_credentials(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iam", "user"]) == 3
    assert run(["iam", "user", "--account", "12"]) == 2
    assert "twelve digits" in capsys.readouterr().err


def test_command_writes_files(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["iam", "ci", "--account", ACCOUNT, "--trust", "github:acme/data", "--out", "policies"])
        == 0
    )
    assert capsys.readouterr().out.split() == [
        "policies/terradask-default-ci.json",
        "policies/terradask-default-ci-trust.json",
    ]
    trust = json.loads((nowhere / "policies/terradask-default-ci-trust.json").read_text())
    assert "repo:acme/data:pull_request" in json.dumps(trust)


def test_command_writes_terraform(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--account",
        ACCOUNT,
        "--trust",
        "github:acme/data",
        "--environment",
        "production",
        "--format",
        "terraform",
    ]
    assert run(["iam", "ongoing", *arguments]) == 0
    resources = json.loads(capsys.readouterr().out)["resource"]
    assert resources["aws_iam_policy"].keys() == resources["aws_iam_role_policy_attachment"].keys()
    assert (
        "repo:acme/data:environment:production"
        in resources["aws_iam_role"]["terradask-default-ongoing"]["assume_role_policy"]
    )
    # IAM's variables are none of Terraform's.
    texts = [policy["policy"] for policy in resources["aws_iam_policy"].values()]
    assert any("$${aws:RequestTag/" in text for text in texts)
    assert not any(re.search(r"(?<!\$)\$\{", text) for text in texts)


@pytest.mark.parametrize(
    "arguments", [["--trust", "github:acme/data"], ["--environment", "production"]]
)
def test_rights_to_change_need_an_environment(
    nowhere: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iam", "ongoing", "--account", ACCOUNT, *arguments]) == 2
    assert "--environment" in capsys.readouterr().err


WORKSPACE = '[workspace]\nname = "team"\nregion = "eu-west-1"\n'


def test_setup_makes_roles_within_a_boundary_that_is_printed_beside(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "terradask.toml").write_text(WORKSPACE)
    assert run(["iam", "setup", "--account", ACCOUNT]) == 0
    told = capsys.readouterr()
    printed, arn = json.loads(told.out), f"arn:aws:iam::{ACCOUNT}:policy/terradask-team-boundary"
    boundary = printed.pop("terradask-team-boundary")
    assert printed == caller_policies(bounded(scope()), "setup")
    assert boundary == boundary_policy(scope())[1]
    assert f'network.permissions_boundary = "{arn}"' in told.err
    # With the setting, as it is told.
    (nowhere / "terradask.toml").write_text(
        f'{WORKSPACE}[network]\npermissions_boundary = "{arn}"\n'
    )
    assert run(["iam", "setup", "--account", ACCOUNT]) == 0
    again = capsys.readouterr()
    assert (again.out, len(again.err.splitlines())) == (told.out, 1)
    assert f"within the permissions boundary {arn}" in again.err


def test_setup_without_a_boundary_says_that_it_is_an_administrator(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "terradask.toml").write_text(WORKSPACE)
    assert run(["iam", "setup", "--account", ACCOUNT, "--no-boundary"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == caller_policies(scope(), "setup")
    assert "become the account's administrator" in told.err


def test_terraform_makes_the_boundary_and_attaches_it_to_nobody(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "terradask.toml").write_text(WORKSPACE)
    assert run(["iam", "setup", "--account", ACCOUNT, "--format", "terraform"]) == 0
    resources = json.loads(capsys.readouterr().out)["resource"]
    assert "terradask-team-boundary" in resources["aws_iam_policy"]
    assert list(resources) == ["aws_iam_policy"]


@pytest.mark.parametrize(
    ("caller", "what"),
    [
        ("setup", "decides what hosts run and what they may do, within the permissions boundary"),
        ("ongoing", "hosts that it launches do: trust it as you trust users"),
        ("ci", "changes nothing but the locks of states"),
        ("user", "runs code on every cluster of the workspace"),
    ],
)
def test_policies_say_what_they_are(
    nowhere: Path, capsys: pytest.CaptureFixture[str], caller: str, what: str
) -> None:
    (nowhere / "terradask.toml").write_text(WORKSPACE)
    assert run(["iam", caller, "--account", ACCOUNT, "--format", "terraform"]) == 0
    told = capsys.readouterr()
    sentence = json.loads(told.out)["//"]
    assert what in sentence
    assert told.err.splitlines()[-1] == sentence
    assert run(["iam", caller, "--account", ACCOUNT]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == sentence


def test_command_limits_one_kind_of_user(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = ["iam", "user", "--account", ACCOUNT]
    asked = [*plain, "--max-workers", "50", "--types", "m6i.*", "--types", "c7i.*"]
    assert run([*asked, "--no-gpu", "--name", "team-a"]) == 0
    out, err = capsys.readouterr()
    printed = json.loads(out)
    assert set(printed) >= {"terradask-default-user-team-a-1"}
    limits = CallerLimits(max_workers=50, types=("m6i.*", "c7i.*"), gpus=False)
    changing = next(
        one
        for document in printed.values()
        for one in document["Statement"]
        if one["Sid"] == "ChangeTypesOfGroups"
    )
    types = {"autoscaling:InstanceTypes": ["m6i.*", "c7i.*"]}
    assert changing["Condition"]["ForAllValues:StringLike"] == types
    for sentence in limits.sentences():
        assert sentence in " ".join(err.split())
    # Without them it is the same as ever.
    assert run(plain) == 0
    out, err = capsys.readouterr()
    assert "NumericLessThanEquals" not in out
    assert "--" not in err
    # Files are named after the policies.
    assert run([*asked, "--name", "team-a", "--format", "terraform", "--out", "made"]) == 0
    assert capsys.readouterr().out.split() == ["made/terradask-default-user-team-a.tf.json"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--max-workers", "0"], "x>=1"),
        (["--types", "m6i"], "write m6i.* for all sizes"),
        (["--types", "g5.*", "--no-gpu"], "have GPUs or other accelerators"),
        (["--name", "Team A"], "can't have this name"),
        (["--clusters", "team-a-*"], 'set workspace.isolation = "cluster"'),
        (["--clusters", "team-*-x"], "a star at the end"),
    ],
)
def test_command_refuses_limits_that_leave_nothing(
    nowhere: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert run(["iam", "user", "--account", ACCOUNT, *arguments]) == 2
    out, err = capsys.readouterr()
    assert problem in " ".join(err.split())
    assert out == ""


def test_command_limits_the_clusters_of_an_isolated_workspace(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = '[workspace]\nname = "team"\nregion = "eu-west-1"\nisolation = "cluster"\n'
    (nowhere / "terradask.toml").write_text(settings)
    asked = ["iam", "user", "--account", ACCOUNT, "--clusters", "team-a-*", "--clusters", "etl"]
    assert run(asked) == 0
    out, err = capsys.readouterr()
    limits = CallerLimits(clusters=("team-a-*", "etl"))
    assert json.loads(out) == caller_policies(scope(isolated=True, limits=limits), "user")
    assert "clusters named team-a-* and etl" in " ".join(err.split())
    assert "clusters of others" not in err
    bound = f'[network]\npermissions_boundary = "{BOUNDARY}"\n'
    (nowhere / "terradask.toml").write_text(settings + bound)
    assert run(asked) == 2
    assert "more than their own cluster" in " ".join(capsys.readouterr().err.split())


def test_command_warns_of_types_that_nobody_knows(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["iam", "user", "--account", ACCOUNT, "--types", "m6i.*", "--types", "q77.*"]) == 0
    warned = " ".join(capsys.readouterr().err.split())
    assert "knows no instance type like q77.*" in warned
    assert "m6i.*" not in warned.partition("q77")[0]


def test_types_are_completed_without_a_call() -> None:
    def completed(typed: str) -> list[str]:
        context = click.Context(click.Command("user"))
        option = click.Option(["--types"], shell_complete=complete_type)
        return [item.value for item in option.shell_complete(context, typed)]

    assert completed("m6i") == ["m6i.*", "m6id.*", "m6idn.*", "m6in.*"]
    assert completed("m6i.") == sorted(completed("m6i."))
    assert {"m6i.*", "m6i.large"} <= set(completed("m6i."))
    assert completed("q77") == []
