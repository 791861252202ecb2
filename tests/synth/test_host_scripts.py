"""Scripts of hosts, as they stand in the network's stack: their text, their SHA-256, and what
policy and the report make of them.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from terradask._plans.documents import document_changes
from terradask._plans.render_terminal import to_text
from terradask._plans.summary import summarise
from terradask_stacks.host_scripts import HostScript

from .planting import ACCESS_KEY
from .policy_forms import FORMS, Document, found

SETUP = HostScript(b'#!/bin/bash\necho "${HOME} %{x} ${TfToken[TOKEN.0]}"\ncp a b\n', 300)
LEAVE = HostScript(b"#!/bin/sh\nreturn-licence\n", 30)


def stack_with(synth: Callable[..., Document], **scripts: HostScript) -> Document:
    return synth("network", scripts=scripts)


def objects(stack: Document) -> dict[str, Document]:
    return dict(stack["resource"]["aws_s3_object"])


def host_json(stack: Document) -> Document:
    template = next(iter(stack["resource"]["aws_launch_template"].values()))
    text = base64.b64decode(template["user_data"]).decode()
    line = next(line for line in text.splitlines() if '"format": 1' in line)
    return dict(json.loads(line))


def test_the_bucket_gets_the_text_and_user_data_its_sha256(synth: Callable[..., Document]) -> None:
    stack = stack_with(synth, setup=SETUP, leave=LEAVE)
    put = objects(stack)
    for name, script in (("setup", SETUP), ("leave", LEAVE)):
        held = put[f"host-{name}"]
        assert base64.b64decode(held["content_base64"]) == script.content
        assert held["key"] == f"host/scripts/{hashlib.sha256(script.content).hexdigest()}"
        assert held["server_side_encryption"] == "AES256"
        assert host_json(stack)[name] == {
            "sha256": script.sha256,
            "timeout_seconds": script.timeout_seconds,
        }
    assert SETUP.key in put["workspace"]["content"]


def test_without_scripts_nothing_changes(synth: Callable[..., Document]) -> None:
    assert not {"host-setup", "host-leave"} & set(objects(synth("network")))
    assert not {"setup", "leave"} & set(host_json(synth("network")))
    assert "script_keys" not in objects(synth("network"))["workspace"]["content"]


@pytest.mark.parametrize("form", FORMS)
def test_policy_takes_what_the_settings_ask_for(synth: Callable[..., Document], form: str) -> None:
    ours = stack_with(synth, setup=SETUP, leave=LEAVE)
    assert found(FORMS[form](ours), ours) == []


def with_text(content: bytes) -> Callable[[Document], None]:
    def plant(stack: Document) -> None:
        encoded = base64.b64encode(content).decode()
        objects(stack)["host-setup"]["content_base64"] = encoded

    return plant


def boots(**changes: Any) -> Callable[[Document], None]:
    """Return what changes ``setup`` in ``host.json`` of one template."""

    def plant(stack: Document) -> None:
        template = next(iter(stack["resource"]["aws_launch_template"].values()))
        text = base64.b64decode(template["user_data"]).decode()
        setup = host_json(stack)["setup"]
        changed = text.replace(json.dumps(setup), json.dumps(setup | changes))
        assert changed != text
        template["user_data"] = base64.b64encode(changed.encode()).decode()

    return plant


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (with_text(b"#!/bin/sh\ncurl evil\n"), "is another script than the one whose SHA-256"),
        (boots(sha256="0" * 64), "user_data isn't terradask's for this workspace"),
        (boots(key=ACCESS_KEY), "user_data holds an AWS access key"),
        (boots(more="x"), "user_data isn't terradask's for this workspace"),
    ],
)
def test_planted_scripts_are_found_by_a_rule_of_user_data(
    synth: Callable[..., Document], form: str, plant: Callable[[Document], None], message: str
) -> None:
    ours = stack_with(synth, setup=SETUP)
    planted = copy.deepcopy(ours)
    plant(planted)
    # Also without the stack to compare with.
    messages = [each.message for each in found(FORMS[form](planted), ours) if each.check == "P1"]
    assert any(message in each for each in messages), messages


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_in_a_script_stops_the_apply(synth: Callable[..., Document], form: str) -> None:
    script = HostScript(f"#!/bin/sh\nexport AWS_ACCESS_KEY_ID={ACCESS_KEY}\n".encode(), 9)
    ours = stack_with(synth, setup=script)
    checks = {(each.check, each.address) for each in found(FORMS[form](ours), ours)}
    assert ("P5", "aws_s3_object.host-setup") in checks


def change(before: HostScript | None, after: HostScript) -> dict[str, Any]:
    sides = {
        side: None
        if script is None
        else {"key": script.key, "content_base64": script.content_base64}
        for side, script in (("before", before), ("after", after))
    }
    actions = ["create"] if before is None else ["delete", "create"]
    return {**sides, "actions": actions, "after_unknown": {}, "replace_paths": [["key"]]}


def test_the_report_has_the_text_and_what_changes_in_it() -> None:
    (made,) = document_changes(change(None, SETUP))
    assert made.lines[1:] == tuple(f"+{line}" for line in SETUP.content.decode().splitlines())
    (changed,) = document_changes(change(SETUP, HostScript(b"#!/bin/bash\ncp a c\n", 300)))
    assert {"-cp a b", "+cp a c", " #!/bin/bash"} <= set(changed.lines)
    (masked,) = document_changes(change(None, HostScript(b"#!/bin/sh\nDB_PASSWORD=hunter2\n", 9)))
    assert "hunter2" not in "".join(masked.lines)


def test_a_reviewer_is_told_that_it_runs_as_root() -> None:
    resource = {
        "address": "aws_s3_object.host-setup",
        "type": "aws_s3_object",
        "name": "host-setup",
        "mode": "managed",
        "change": change(SETUP, LEAVE),
    }
    summary = summarise({"resource_changes": [resource]}, stack="network", plan_hash="0" * 64)
    assert [danger.kind for danger in summary.dangers] == ["replace", "script"]
    text = to_text(summary)
    assert "! aws_s3_object.host-setup is replaced; is run as root by each new host" in text
    assert "+return-licence" in text
    # Once as a text, not as its base64.
    assert LEAVE.content_base64 not in text
    assert LEAVE.sha256 in text
