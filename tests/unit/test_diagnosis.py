"""The archive of `terradask debug`: what is in it, what never is, and what can't be read."""

from __future__ import annotations

import datetime
import errno
import io
import json
import os
import re
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._common import masking
from terradask._common.progress import silent
from terradask._observe.logs.lines import LogLine
from terradask._plans.policy import patterns
from terradask._workspace.diagnosis import archive, parts, redaction
from terradask._workspace.diagnosis.archive import Archive, archive_of, check_path, write
from terradask._workspace.diagnosis.collect import ReadPart, read_part, read_parts
from terradask._workspace.diagnosis.parts import Part, state_facts
from terradask._workspace.diagnosis.redaction import Redaction
from terradask._workspace.missing_rights import rights_of
from terradask.errors import AccessDenied, InvalidInput, TerradaskError

AT = datetime.datetime(2026, 11, 27, 2, 24, tzinfo=datetime.UTC)

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvPLANTEDxk1\nMIIEvPLANTEDxk2\n-----END PRIVATE KEY-----"

#: Place -> a text of a secret that stands there; each is found nowhere in an archive.
PLANTED = {
    "variable of the cluster": "plain words of a variable",
    "the same variable in a log": "plain words of a variable",
    "variable of a group": "otherplainvariable",
    "variable of this process": "hunter2-of-this-process",
    "named in settings": "s3cr3t-of-settings",
    "named in a tag": "s3cr3t-of-a-tag",
    "token in a tag": "ghp_0123456789abcdefghijklmnop",
    "user data": "IyEvYmluL3NoIHBsYW50ZWQtdXNlci1kYXRh",
    "password in a lock": "lockpassword99",
    "token in a lock": "locktokenalone",
    "state's attribute": "s3cr3t-of-the-state",
    "state's output": "s3cr3t-of-an-output",
    "key in a log": "MIIEvPLANTEDxk1",
    "end of a key in a log": "MIIEvPLANTEDtail",
    "assigned in a log": "s3cr3t-of-a-log",
    "access key in an event": "AKIAIOSFODNN7PLANTED",
    "bearer in an event": "abcdefgh01234567bearerplanted",
    "token of a link": "0123456789abcdef0123tokenoflink",
    "signature of a link": "deadbeef0123deadbeef0123",
    "in base64": "czNjcjN0PXBhc3N3b3JkOiBwbGFudGVkLWluLWJhc2U2NA==",
    "reason of a missing part": "s3cr3t-of-a-reason",
    "key of a mapping": "glpat-0123456789abcdefghij",
}

STATE = {
    "serial": 3,
    "lineage": "l",
    "terraform_version": "1.15.0",
    "outputs": {"link": {"value": PLANTED["state's output"], "sensitive": True}},
    "resources": [
        {
            "mode": "managed",
            "type": "aws_secretsmanager_secret_version",
            "name": "keys",
            "instances": [
                {
                    "index_key": "a",
                    "status": "tainted",
                    "attributes": {"id": "arn:x", "note": PLANTED["state's attribute"]},
                }
            ],
        }
    ],
}


def _part(file: str, content: Any, *, is_log: bool = False) -> ReadPart:
    return ReadPart(Part(file, "A title", lambda: content, is_log=is_log), content)


def planted_parts() -> list[ReadPart]:
    denied = TerradaskError(
        "AWS refuses it", given=f"password={PLANTED['reason of a missing part']}", advice="ask"
    )
    return [
        _part(
            "settings.json",
            {
                "settings": {
                    "cluster": {
                        "environ": {"MODE": PLANTED["variable of the cluster"], "N": "4"},
                        "worker_options": {"env": {"OTHER": PLANTED["variable of a group"]}},
                        "scheduler_options": {"auth_token": PLANTED["named in settings"]},
                        "tags": {
                            "db-password": PLANTED["named in a tag"],
                            "note": PLANTED["token in a tag"],
                        },
                        "secrets": {"TOKEN": "arn:aws:ssm:us-east-1:123456789012:parameter/token"},
                    }
                }
            },
        ),
        _part(
            "status.json",
            {
                "state": "failed",
                "problems": [f"no link: https://h/?token={PLANTED['token of a link']}"],
                "owner": "arn:aws:iam::123456789012:user/ada",
                "user_data": PLANTED["user data"],
                "blob": PLANTED["in base64"],
                PLANTED["key of a mapping"]: 1,
            },
        ),
        _part(
            "events.txt",
            f"failed: {PLANTED['access key in an event']}\n"
            f"curl -H 'Authorization: Bearer {PLANTED['bearer in an event']}'\n"
            f"https://b.s3.amazonaws.com/k?X-Amz-Signature={PLANTED['signature of a link']}\n",
        ),
        _part(
            "logs/workers.txt",
            f"{PLANTED['end of a key in a log']}\n-----END PRIVATE KEY-----\n{KEY}\n"
            f"mode is {PLANTED['the same variable in a log']}\n"
            f"secret = {PLANTED['assigned in a log']}\n"
            f"connected with {PLANTED['variable of this process']}\n"
            "state of the scheduler: running\ntoken: scheduler\n",
            is_log=True,
        ),
        _part(
            "documents/software.lock.txt",
            f"--index-url https://me:{PLANTED['password in a lock']}@host/simple\n"
            f"x @ git+https://{PLANTED['token in a lock']}@host/x.git\n"
            "y @ git+ssh://git@github.com/y.git\n",
        ),
        _part("states/etl.json", {"state": state_facts(STATE)}),
        read_part(Part("history.json", "History", lambda: _raise(denied))),
    ]


def _raise(error: Exception) -> None:
    raise error


def planted_archive(**options: Any) -> Archive:
    read = planted_parts()
    environ = {
        "APP_TOKEN": PLANTED["variable of this process"],
        "PWD": "/srv/ada/scheduler",
        "HOME": "/srv/ada",
    }
    redact = Redaction([one.content for one in read], environ, **options)
    return archive_of("etl", read, redact)


def unpacked(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        return {name: packed.read(name).decode() for name in packed.namelist()}


def found_in(archive: Archive) -> set[str]:
    text = "\n".join([*unpacked(archive.to_bytes(AT)).values(), json.dumps(archive.as_dict())])
    return {place for place, secret in PLANTED.items() if secret in text}


def test_no_planted_secret_is_in_it_and_what_helps_is() -> None:
    made = planted_archive()
    assert found_in(made) == set()
    texts = unpacked(made.to_bytes(AT))
    state = json.loads(texts["terradask-debug-etl/states/etl.json"])["state"]
    assert state["outputs"] == ["link"]
    assert state["resources"] == [
        {
            "address": "aws_secretsmanager_secret_version.keys['a']",
            "id": "arn:x",
            "status": "tainted",
        }
    ]
    log = texts["terradask-debug-etl/logs/workers.txt"]
    # What a log has in the place of a secret doesn't mask the same word elsewhere.
    assert "state of the scheduler: running\n" in log
    assert (
        "git+ssh://git@github.com/y.git" in texts["terradask-debug-etl/documents/software.lock.txt"]
    )
    settings = texts["terradask-debug-etl/settings.json"]
    assert '"N": "4"' in settings
    assert "parameter/token" in settings
    assert "123456789012" in texts["terradask-debug-etl/status.json"]


#: Names that mask, by module -> secrets that are found without them.
BROKEN: list[tuple[tuple[tuple[Any, str], ...], set[str]]] = [
    (((redaction, "_IN_ADDRESS"),), {"token in a lock"}),
    (((redaction, "_SIGNATURE"),), {"signature of a link"}),
    (((redaction, "_END_OF_KEY"),), {"end of a key in a log"}),
    (
        ((redaction, "in_environment"),),
        {"variable of the cluster", "variable of a group", "the same variable in a log"},
    ),
    (((redaction, "_variables"),), {"the same variable in a log"}),
    (((redaction, "looks_secret"),), {"in base64"}),
    (
        ((redaction, "is_secret_name"), (patterns, "is_secret_name")),
        {"variable of this process", "user data", "named in settings", "named in a tag"},
    ),
    (
        ((patterns, "masked_text"), (masking, "masked_text")),
        {
            "token in a tag",
            "key in a log",
            "assigned in a log",
            "access key in an event",
            "bearer in an event",
            "token of a link",
            "reason of a missing part",
            "key of a mapping",
        },
    ),
]
_WITHOUT = {"masked_text": lambda text: text, "_variables": lambda *_: ()}


@pytest.mark.parametrize(("names", "found"), BROKEN, ids=[names[0][1] for names, _ in BROKEN])
def test_without_each_redaction_secrets_are_found(
    names: Any, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in names:
        without: Any = _WITHOUT.get(name, lambda *_: False)
        if name.isupper():
            without = SimpleNamespace(sub=lambda _mask, text: text)
        monkeypatch.setattr(module, name, without)
    assert found_in(planted_archive()) >= found


def test_each_planted_secret_is_found_without_some_redaction() -> None:
    broken = set[str]().union(*(found for _, found in BROKEN))
    # Masked by two rules: an address with a password. Left out: all values of a state.
    assert PLANTED.keys() - broken == {
        "password in a lock",
        "state's attribute",
        "state's output",
    }


def test_a_states_own_values_are_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no name that shows them: only leaving them out helps."""
    monkeypatch.setattr(sys.modules[__name__], "state_facts", lambda document: document)
    assert "state's attribute" in found_in(planted_archive())


def test_numbers_of_accounts_are_replaced_on_request() -> None:
    text = "\n".join(unpacked(planted_archive(hide_accounts=True).to_bytes(AT)).values())
    assert "123456789012" not in text
    assert "arn:aws:iam::account-1:user/ada" in text
    assert "arn:aws:ssm:us-east-1:account-1:parameter/token" in text


# ---- the index, and what can't be read -----------------------------------------------------------


def test_the_index_begins_with_the_verdict_and_names_each_file() -> None:
    index = unpacked(planted_archive().to_bytes(AT))["terradask-debug-etl/README.md"]
    lines = index.splitlines()
    assert lines[0] == "# terradask debug: etl"
    assert lines[2] == "- etl: failed"
    assert lines[3].startswith("- no link")
    assert "| logs/workers.txt | A title |" in index
    assert "- history.json: AWS refuses it; given: password=(sensitive) to do: ask" in index


def test_the_verdict_of_a_status_comes_first() -> None:
    status = {"verdict": {"text": "3 of 8 workers", "command": "terradask logs etl"}}
    made = archive_of("etl", [_part("status.json", status)], Redaction([], {}))
    assert made.verdict == ("etl: 3 of 8 workers", "next: terradask logs etl")


def test_a_part_without_anything_is_no_failure() -> None:
    made = archive_of("etl", [read_part(Part("run.json", "Run", lambda: None))], Redaction([], {}))
    assert made.reasons == {}
    assert "There is no run.json." in unpacked(made.to_bytes(AT))["terradask-debug-etl/README.md"]


def test_an_aws_that_answers_nothing_costs_the_seconds_alone() -> None:
    never = threading.Event()
    hanging = Part("status.json", "Status", never.wait)
    quick = Part("versions.json", "Versions", lambda: {"python": "3"})
    here = Part("doctor/machine.json", "Findings", never.wait, is_here=True)
    read = read_parts(
        [hanging, quick, here], seconds=0.5, subject="etl", progress=silent, of_aws="AWS (eu)"
    )
    never.set()
    late = "no answer within 0 seconds"
    assert [one.why for one in read] == [f"{late} from AWS (eu)", None, late]
    made = archive_of("etl", read, Redaction([], {}))
    assert made.verdict == (f"etl: its status could not be read: {late} from AWS (eu)",)


def test_a_refusal_is_short_and_its_right_has_a_line_with_whom_to_ask() -> None:
    denied = AccessDenied("s3:GetObject", "User: ada isn't", resource="arn:aws:s3:::b/run.json")
    read = read_part(Part("run.json", "Run", lambda: _raise(denied)))
    assert read.why == "AWS refuses s3:GetObject"
    refused = {
        ("s3:GetObject", "arn:aws:s3:::123456789012/accounts/r.json"): "role",
        ("s3:GetObject", "arn:aws:s3:::b/run.json"): "role",
        ("s3:GetObject", "arn:aws:s3:::b/x.json"): "role",
        ("s3:GetObject", "arn:aws:s3:::b/y.json"): "role",
        ("ec2:DescribeVolumes", None): "organization",
    }
    rights = rights_of(refused, lambda action, _: "user" if action[:2] == "s3" else None)
    made = archive_of("etl", [read], Redaction([], {}, hide_accounts=True), rights)
    index = unpacked(made.to_bytes(AT))["terradask-debug-etl/README.md"]
    part = index.partition("## Missing rights")[2].partition("##")[0]
    assert [line for line in part.splitlines() if line.startswith("- ")] == [
        "- AWS refuses ec2:DescribeVolumes: prices can't be shown; a policy of the organization "
        "refuses it, which its managers change",
        "- AWS refuses s3:GetObject on arn:aws:s3:::account-1/accounts/r.json: costs of runs can't "
        "be shown; 'terradask iam user' prints a policy with it",
        "- AWS refuses s3:GetObject on arn:aws:s3:::b/run.json, arn:aws:s3:::b/x.json and 1 more; "
        "'terradask iam user' prints a policy with it",
    ]
    assert "- run.json: AWS refuses s3:GetObject" in index
    json.dumps(made.as_dict())


def test_any_error_of_a_part_is_its_reason() -> None:
    read = read_part(Part("x.json", "X", lambda: _raise(KeyError("a\nb"))))
    assert read.why == "KeyError: 'a\\nb'"


# ---- attackers: what tasks, hosts and other people write -----------------------------------------


def test_names_and_html_of_others_stay_text() -> None:
    objects = [{"key": "../../etc/cron.d/x", "bytes": 1}]
    wild = "<script>alert(1)</script> | [x](javascript:1) `\n# Verdict: all good"
    read = [
        _part("objects.json", objects),
        _part("status.json", {"state": wild, "problems": [wild]}),
        read_part(Part("events.txt", "Events", lambda: _raise(ValueError(wild)))),
    ]
    texts = unpacked(archive_of("etl", read, Redaction([], {})).to_bytes(AT))
    assert set(texts) == {
        f"terradask-debug-etl/{name}" for name in ("README.md", "objects.json", "status.json")
    }
    index = texts["terradask-debug-etl/README.md"]
    assert "<script" not in index
    assert re.search(r"(?<!\\)\[x\]\(", index) is None
    assert [line for line in index.splitlines() if line.startswith("#")] == [
        "# terradask debug: etl",
        "## Files",
        "## Not read",
        "## Before you send it",
    ]


def test_a_file_has_a_limit_and_a_log_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert archive.MOST_BYTES == 2**20
    monkeypatch.setattr(archive, "MOST_BYTES", 10_000)
    line = "x" * 99 + "\n"
    log = _part("logs/w.txt", line * 400 + "the last line\n", is_log=True)
    other = _part("events.txt", "the first line\n" + line * 400)
    made = archive_of("etl", [log, other], Redaction([], {}))
    assert [len(one.content) <= 10_000 for one in made.files] == [True, True]
    assert [one.is_cut for one in made.files] == [True, True]
    assert made.files[0].content.endswith(b"the last line\n")
    assert made.files[1].content.startswith(b"the first line\n")
    assert "(cut)" in unpacked(made.to_bytes(AT))["terradask-debug-etl/README.md"]


def test_no_cut_goes_through_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    secret = "s3cr3t-" + "0123456789abcdef" * 8
    for shift in range(0, 160, 7):
        text = f"token={secret}\n" + "y" * (840 + shift)
        made = archive_of("etl", [_part("logs/w.txt", text, is_log=True)], Redaction([], {}))
        assert b"cdef" not in made.files[0].content


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("ghp_0123456789abcdefghijklmnopqrstuvwxyz", "ghp_0"),
        ("AKIAIOSFODNN7PLANTED", "AKIAIO"),
        ("https://me:s3cr3tpassword@host/x", "s3c"),
        (KEY.replace("\n", "\\n").replace("PLANTED", "PLANTED" * 400), "PLANTED"),
        (KEY.replace("\n", " ").replace("PLANTED", "PLANTED " * 400), "PLANTED"),
        ("token=" + "s3cr3t" * 350_000, "s3c"),
        ("hunter2-of-this-process", "hunter2"),
    ],
    ids=["token", "access key", "password", "key", "key of words", "two megabytes", "variable"],
)
def test_no_cut_of_a_line_shows_the_beginning_of_a_secret(secret: str, shown: str) -> None:
    redact = Redaction([], {"APP_TOKEN": PLANTED["variable of this process"]})
    for shift in (1, *range(1960, 2010, 7)):
        text = f"{'x' * shift} {secret} and more"
        lines = [LogLine(AT, "i-1", "workers", None, None, each) for each in (text, "the next")]
        deployment: Any = SimpleNamespace(iter_logs=lambda *_, lines=lines, **__: lines)
        log = redact.text(dict(parts._logs(lambda one=deployment: one))["workers"]())
        assert shown not in log
        assert log.endswith("the next\n")
        assert max(map(len, log.splitlines())) < 2_100


@pytest.mark.parametrize("escape", ["\x1b", "\N{REPLACEMENT CHARACTER}"])
def test_colours_hide_no_secrets_name(escape: str) -> None:
    text = f"{escape}[36mpass{escape}[1;4mword{escape}[0m={escape}[35ms3cr3t{escape}[0m next"
    assert Redaction([], {}).text(text) == "password=(sensitive) next"


def test_a_log_of_a_gigabyte_is_read_by_its_end_alone() -> None:
    asked: dict[str, int] = {}

    def lines(hosts: str, *, tail: int) -> Any:
        asked[hosts] = tail
        for _ in range(tail):
            yield LogLine(AT, "i-1", "workers", None, None, "\x1b[2J" + "z" * 200_000)

    deployment: Any = SimpleNamespace(iter_logs=lines)
    texts = {hosts: read() for hosts, read in parts._logs(lambda: deployment)}
    assert asked == {"scheduler": 500, "workers": 1000}
    assert max(map(len, texts["workers"].splitlines())) < 2_100
    assert "\x1b" not in texts["workers"]


def test_it_is_written_once_for_this_user_and_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.zip"
    write(target, b"x")
    if os.name == "posix":
        assert target.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link.zip").symlink_to(tmp_path / "elsewhere")
    for taken in (target, tmp_path / "link.zip", tmp_path / "no/such/folder.zip"):
        with pytest.raises(InvalidInput, match="another path"):
            write(taken, b"y")
        with pytest.raises(InvalidInput, match="another path"):
            check_path(taken)
    assert target.read_bytes() == b"x"
    assert not (tmp_path / "elsewhere").exists()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InvalidInput, match="Permission denied"):
        check_path(tmp_path / "b.zip")


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OSError(errno.ENOSPC, "No space left"), InvalidInput), (KeyboardInterrupt(), None)],
)
def test_a_full_disk_or_an_interrupt_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, raised: Any
) -> None:
    def fails(descriptor: int, _mode: str) -> Any:
        os.write(descriptor, b"PK")
        os.close(descriptor)
        raise error

    monkeypatch.setattr(os, "fdopen", fails)
    with pytest.raises(raised or type(error)) as caught:
        write(tmp_path / "a.zip", b"PK and more")
    if raised is not None:
        assert "No space left" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
