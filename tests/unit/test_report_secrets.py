"""No secret leaves a plan, wherever it stands in it, whatever it is shown as. The plan's file
itself is for its owner alone.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from terradask._common.checksum import sha256_of_file
from terradask._common.masking import in_environment, masked_text, secret_name
from terradask._plans.basis import PlanBasis
from terradask._plans.documents import document_changes
from terradask._plans.folder import PlanFolder
from terradask._plans.render_markdown import to_markdown
from terradask._plans.render_terminal import to_json, to_text
from terradask._plans.report import PlanReport, WorkspaceReport
from terradask._plans.saved import Plan
from terradask._plans.summary import summarise
from terradask._terraform.events import PlanFile
from terradask.errors import Diagnostic, TerraformError

from .lone_stacks import alone
from .report_data import CONTEXT

#: Every planted secret has this in it.
PLANTED = "hunter2"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}\n-----END RSA PRIVATE KEY-----"
URL = f"postgres://app:{PLANTED}@db.example/x"
ACCESS_KEY = "AKIAHUNTER2HUNTER2AA"
CLOUD_CONFIG = f"""#cloud-config
write_files:
- path: /etc/app
  content: "{{\\"db_password\\": \\"{PLANTED}\\"}}"
- content: |
    DB_PASSWORD={PLANTED}
    url: {URL}
    api_key: |
      {PLANTED}
runcmd:
- app --password {PLANTED}
- curl -H "Authorization: Bearer {PLANTED}{PLANTED}"
{PEM}
"""
POLICY = {
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "s3:Get*",
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:UserAgent": f"token={PLANTED}"}},
        }
    ],
    "password": PLANTED,
}


def _encoded(text: str, *, packed: bool = False) -> str:
    raw = text.encode()
    return base64.b64encode(gzip.compress(raw) if packed else raw).decode()


VALUES: dict[str, Any] = {
    "tags": {
        "dbPassword": PLANTED,
        "note": f"use {ACCESS_KEY}",
        "url": URL,
        "config": json.dumps({"token": PLANTED}),
    },
    "description": f"log in with password={PLANTED}",
    "policy": json.dumps(POLICY),
    "user_data": _encoded(CLOUD_CONFIG),
    "user_data_base64": _encoded(CLOUD_CONFIG, packed=True),
    "environment": [{"variables": {"ANYTHING": PLANTED}}],
    "environ": {"PLAIN_NAME": PLANTED},
    "content": json.dumps(
        {
            "settings": {
                "environ": {"FOO": PLANTED, "OMP_NUM_THREADS": "1"},
                "inner": json.dumps({"secret": PLANTED}),
            }
        }
    ),
    "certificate": PEM,
    "marked": PLANTED,
    "list": ["a", f"{URL}"],
    "blob": _encoded(f"password={PLANTED} and more of it"),
}
MARKS = {"marked": True}


def _plan_document() -> dict[str, Any]:
    def change(kind: str, actions: list[str], before: Any, after: Any) -> dict[str, Any]:
        marks = {"before_sensitive": MARKS, "after_sensitive": MARKS}
        return {
            "address": f"{kind}.x",
            "type": kind,
            "change": {
                "actions": actions,
                "before": before,
                "after": after,
                "after_unknown": {},
                **marks,
            },
        }

    old = {
        **VALUES,
        "policy": json.dumps({}),
        "description": f"old, secret: {PLANTED}",
        "user_data": _encoded(f"#!/bin/sh\nTOKEN={PLANTED}\n"),
    }
    return {
        "resource_changes": [
            change("aws_new", ["create"], None, VALUES),
            change(
                "aws_changed",
                ["update"],
                {key: [] if isinstance(v, list) else {} for key, v in VALUES.items()},
                VALUES,
            ),
            change("aws_policy", ["update"], old, VALUES),
            change("aws_gone", ["delete"], VALUES, None),
        ],
        "resource_drift": [
            change("aws_drifted", ["update"], old, VALUES),
            change("aws_lost", ["delete"], VALUES, None),
        ],
        "output_changes": {
            "connection": {"actions": ["update"], "before": "x", "after": URL},
            "admin_password": {"actions": ["create"], "before": None, "after": PLANTED},
            "marked": {
                "actions": ["create"],
                "before": None,
                "after": PLANTED,
                "after_sensitive": True,
            },
        },
        "terraform_version": "1.11.4",
    }


@pytest.fixture
def report() -> PlanReport:
    return PlanReport(
        summarise(_plan_document(), stack="network", plan_hash="ab" * 32), (), None, CONTEXT
    )


def _clean(text: str) -> None:
    for secret in (PLANTED, ACCESS_KEY, _encoded(CLOUD_CONFIG), VALUES["blob"]):
        assert secret not in text, text[max(0, text.index(secret) - 200) : text.index(secret) + 40]


def test_every_format_is_free_of_them(report: PlanReport):
    failed = f"boom, password={PLANTED}"
    whole = WorkspaceReport(CONTEXT, (report,), failed={"etl": masked_text(failed)})
    assert json.dumps(_plan_document()).count(PLANTED) > 30
    for text in (
        to_json(report),
        to_json(whole),
        to_json(report.summary),
        to_markdown(whole),
        to_text(report.summary),
        to_text(report),
        to_text(whole),
        repr(report),
    ):
        _clean(text)
        assert "(sensitive)" in text


def test_what_surrounds_a_secret_can_still_be_reviewed(report: PlanReport):
    text = to_markdown(WorkspaceReport(CONTEXT, (report,)))
    assert "+    DB_PASSWORD=(sensitive)" in text
    assert "postgres://app:(sensitive)@db.example/x" in text
    assert '"OMP_NUM_THREADS": "1"' in text
    assert '"Action": "s3:Get*"' in text


def test_saved_files_are_free_of_them_but_the_plan(report: PlanReport, tmp_path: Path):
    raw = tmp_path / "raw.tfplan"
    raw.write_text(PLANTED)
    basis = PlanBasis(
        "network",
        False,
        "default",
        "1",
        "us-east-1",
        "0.1.0",
        "1.11.4",
        "5.100.0",
        "x",
        0,
        "",
        "2026-11-20T05:30:19Z",
    )
    plan = Plan(
        folder=tmp_path,
        plan_file=PlanFile(raw, sha256_of_file(raw)),
        basis=basis,
        show=lambda file: {},
    )
    PlanFolder(tmp_path / "out").write(WorkspaceReport(CONTEXT, (report,)), [plan])
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) == 8
    for path in files:
        if path.suffix == ".tfplan":
            assert path.stat().st_mode & 0o777 == 0o600
        else:
            _clean(path.read_text())


def test_errors_are_free_of_them(tmp_path: Path):
    class Failing:
        lock = None

        def plan(self, *_args: Any, **_options: Any) -> None:
            found = Diagnostic("error", f"bad token={PLANTED}", f"sent: {URL}\n{PEM}")
            raise TerraformError(
                f"failed with password={PLANTED}", verb="plan", diagnostics=[found], given=URL
            )

    (tmp_path / "s").mkdir()
    stack = alone("s", tmp_path)
    stack.terraform = Failing()  # type: ignore[assignment]
    with pytest.raises(TerraformError) as caught:
        stack.plan(destroy=False)
    for text in (str(caught.value), repr(caught.value), json.dumps(caught.value.as_dict())):
        _clean(text)
    assert "failed with password=(sensitive)" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:secretsmanager:us-east-1:1:secret:terradask/default/*",
        "http_tokens = required",
        '"HttpTokens": "required"',
        "token: ${TOKEN}",
        'curl -H "X-aws-ec2-metadata-token: $TOKEN"',
        "https://sts.us-east-1.amazonaws.com/",
        "secretsmanager:GetSecretValue",
        "secret_id: terradask/default/etl",
        "max_tokens: 4096",
        "keep the password safe",
        "Basic monitoring of hosts",
        "Bearer authentication",
    ],
)
def test_what_only_sounds_secret_stays_in_a_text(text: str):
    assert masked_text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "dbPassword",
        "api-key",
        "GITHUB_TOKEN",
        "aws_secret_access_key",
        "clientSecret",
    ],
)
def test_names_of_secrets(name: str):
    assert secret_name(name)
    assert not secret_name(f"{name}_id")
    assert not secret_name(0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('password = "correct horse, battery"', 'password = "(sensitive)"'),
        ("password: 'correct horse'", "password: '(sensitive)'"),
        ("password=a,b;c next", "password=(sensitive) next"),
        ("Authorization: Basic aHVudGVyMg==", "Authorization: Basic (sensitive)"),
        ("-H 'Authorization: Bearer abc.def-123'", "-H 'Authorization: Bearer (sensitive)'"),
        ("sent Bearer abcdefgh12345678 there", "sent Bearer (sensitive) there"),
        ("?token=abc&x=1", "?token=(sensitive)&x=1"),
        ("token=abc", "token=(sensitive)"),
    ],
)
def test_a_secret_is_masked_whole(text: str, shown: str):
    assert masked_text(text) == shown
    assert masked_text(shown) == shown


def test_numbers_and_flags_of_an_environment_are_shown():
    assert not in_environment(("environ", "OMP_NUM_THREADS"), "8")
    assert in_environment(("environ", "NAME"), "value")
    assert not in_environment(("settings", "NAME"), "value")


def test_documents_that_terraform_marks_or_does_not_know_are_left_out():
    change = {"before": {"policy": "{}"}, "after": {"policy": json.dumps(POLICY)}}
    assert document_changes(change)
    assert not document_changes({**change, "after_sensitive": {"policy": True}})
    assert not document_changes({**change, "after_unknown": {"policy": True}})


def test_a_small_archive_does_not_become_a_large_document():
    bomb = base64.b64encode(gzip.compress(b"#cloud-config\n" + b"x" * 20_000_000)).decode()
    found = document_changes({"before": None, "after": {"user_data_base64": bomb}})
    assert sum(map(len, found[0].lines)) <= 4_000_100
