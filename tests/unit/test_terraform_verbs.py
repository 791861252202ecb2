"""What `Terraform` runs for each verb, and what it makes of the answers: with a program that stands
for Terraform.
"""

from __future__ import annotations

import json
import os
import socket
import time
from getpass import getuser
from pathlib import Path

import pytest

from terradask._terraform.events import CommandOutput, Event
from terradask._terraform.folder_contents import CONFIGURATION
from terradask._terraform.state.model import StateInfo, state_of
from terradask._terraform.terraform import Terraform
from terradask.errors import StateLocked, TerraformError

HERE = f"{getuser()}@{socket.gethostname()}"

PROGRAM = """\
#!/bin/sh
[ "$1" = version ] && { echo "Terraform v1.11.4"; exit 0; }
echo "$*" >> "$0.calls"
case "$1" in
init)
  mkdir -p .terraform/providers/h/n/t/v/p
  record='{"backend": {"type": "s3", "config": {"bucket": null}, "hash": 1}}'
  echo "$record" > .terraform/terraform.tfstate ;;
plan) : > "$(echo "$*" | sed 's/.*-out=\\([^ ]*\\).*/\\1/')" ;;
force-unlock) rm "$0.locked"; exit 0 ;;
esac
if [ "$1" != init ] && [ -e "$0.locked" ]; then cat "$0.locked"; exit 1; fi
echo '{"type": "planned_change", "change": {"resource": {"addr": "x.y"}, "action": "create"}}'
echo '{"type": "change_summary", "changes": {"add": 1, "change": 0, "remove": 0}}'
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "terraform"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "stacks/x"
    folder.mkdir(parents=True)
    (folder / CONFIGURATION).write_text(json.dumps({"terraform": {"backend": {"s3": {}}}}))
    return folder


def _terraform(folder: Path, program: Path, **options) -> Terraform:
    return Terraform(
        folder, environ={**os.environ, "TERRAFORM_BINARY_NAME": str(program)}, **options
    )


def _calls(program: Path) -> list[str]:
    path = Path(f"{program}.calls")
    return path.read_text().splitlines() if path.exists() else []


def _locked_by(who: str, program: Path) -> None:
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    detail = (
        f"Lock Info:\n  ID:        one\n  Path:      b/k\n  Who:       {who}\n  Created:   "
        f"{created}.5 +0000 UTC\n"
    )
    found = {"severity": "error", "summary": "Error acquiring the state lock", "detail": detail}
    Path(f"{program}.locked").write_text(
        json.dumps({"type": "diagnostic", "diagnostic": found}) + "\n"
    )


def test_each_verb_runs_one_command(folder: Path, program: Path, tmp_path: Path):
    events: list[Event] = []
    terraform = _terraform(folder, program, on_event=events.append, state_lock_seconds=7)
    out = tmp_path / "plans/a.tfplan"
    plan = terraform.plan(out, destroy=True, refresh=False)
    assert (plan.add, plan.creates, out.stat().st_mode & 0o777) == (
        1,
        ("x.y",),
        0o600,
    )
    assert terraform.apply(plan) == {"add": 1, "change": 0, "remove": 0}
    assert terraform.destroy()["add"] == 1
    said = [sorted(call.split()) for call in _calls(program)]
    assert said == [
        sorted(["plan", "-json", f"-out={out}", "-destroy", "-refresh=false", "-lock-timeout=0s"]),
        sorted(["apply", "-json", "-lock-timeout=0s", "-parallelism=30", str(out)]),
        sorted(
            ["apply", "-json", "-destroy", "-auto-approve", "-lock-timeout=0s", "-parallelism=30"]
        ),
    ]
    assert [e.type for e in events] == ["planned_change", "change_summary"] * 3


def test_init_runs_again_when_what_it_depends_on_or_made_has_changed(folder: Path, program: Path):
    terraform = _terraform(folder, program)
    assert terraform.init()
    assert not terraform.init()
    assert not _terraform(folder, program).init()
    (folder / ".terraform.lock.hcl").write_text("another")
    assert terraform.init()
    (folder / ".terraform/terraform.tfstate").unlink()
    assert terraform.init()
    assert terraform.init(again=True)
    assert [sorted(call.split()) for call in _calls(program)] == [
        ["-json", "-lockfile=readonly", "-reconfigure", "init"]
    ] * 4


def test_lock_of_a_command_that_was_killed_here_is_removed_once(
    folder: Path, program: Path, tmp_path: Path
):
    told: list[str] = []
    terraform = _terraform(folder, program, on_wait=told.append)
    with terraform.lock:
        # As after a kill of the process that ran it.
        terraform.lock.note("terraform apply", 4_000_000)
    _locked_by(HERE, program)
    terraform.plan(tmp_path / "a.tfplan")
    verbs = [call.split()[0] for call in _calls(program)]
    assert verbs == ["plan", "force-unlock", "plan"]
    timeouts = [word for call in _calls(program) for word in call.split() if "lock-timeout" in word]
    assert timeouts == ["-lock-timeout=0s", "-lock-timeout=10s"]
    assert len(told) == 1
    assert terraform.lock.killed is None


def test_lock_of_somebody_else_stays(folder: Path, program: Path, tmp_path: Path):
    terraform = _terraform(folder, program)
    _locked_by("ana@laptop", program)
    with pytest.raises(StateLocked, match="ana@laptop") as caught:
        terraform.plan(tmp_path / "a.tfplan")
    assert caught.value.lock_id == "one"
    with terraform.lock:
        terraform.lock.note("terraform apply", 4_000_000)
    # Whatever was killed here, it holds nothing: the second try waits for the other's lock.
    with pytest.raises(StateLocked):
        terraform.plan(tmp_path / "a.tfplan")
    # Each at once, then once more for as long as may be waited.
    assert [call.split()[0] for call in _calls(program)] == ["plan"] * 4
    assert [word for call in _calls(program) for word in call.split() if "lock-timeout" in word][
        -2:
    ] == [
        "-lock-timeout=0s",
        "-lock-timeout=10s",
    ]
    assert terraform.lock.killed is None


def test_whoever_waits_for_a_lock_is_told_whose_it_is(folder: Path, program: Path, tmp_path: Path):
    told: list[str] = []
    _locked_by("ana@laptop", program)
    with pytest.raises(StateLocked):
        _terraform(folder, program, on_wait=told.append, state_lock_seconds=3).plan(
            tmp_path / "a.tfplan"
        )
    assert len(told) == 1
    assert told[0].startswith("waiting up to 3 s: the state is locked by ana@laptop since ")
    with pytest.raises(StateLocked):
        _terraform(folder, program, on_wait=told.append, state_lock_seconds=0).plan(
            tmp_path / "a.tfplan"
        )
    assert len(told) == 1


def test_command_that_succeeds_forgets_the_killed_one(folder: Path, program: Path, tmp_path: Path):
    terraform = _terraform(folder, program)
    with terraform.lock:
        terraform.lock.note("terraform apply", 4_000_000)
    terraform.init()
    assert terraform.lock.killed is not None
    terraform.plan(tmp_path / "a.tfplan")
    assert terraform.lock.killed is None


def test_a_state_says_what_is_in_it():
    resources = [
        {
            "mode": "managed",
            "type": "aws_vpc",
            "name": "a",
            "module": "module.m",
            "instances": [{"attributes": {"id": "vpc-1"}}],
        },
        {"mode": "managed", "type": "aws_vpc", "name": "gone", "instances": []},
        {"mode": "data", "type": "aws_region", "name": "b", "instances": [{}]},
    ]
    found = StateInfo.from_json({"serial": 1, "lineage": "l", "resources": resources})
    assert found == StateInfo(1, "l", {"module.m.aws_vpc.a": "vpc-1"})
    assert state_of(b"", "s3://b/k") is None
    with pytest.raises(TerraformError, match=r"interrupted(.|\n)*list-object-versions"):
        state_of(b'{"serial"', "s3://b/k")


def test_creation_that_has_just_begun_is_no_moment_to_stop():
    heard = CommandOutput(request_seconds=60.0)
    assert heard.between_requests()
    heard.take(Event("apply_start", address="x.y", action="create"))
    assert not heard.between_requests()
    heard.take(Event("apply_complete", address="x.y", action="create"))
    assert heard.between_requests()


def test_what_is_no_json_is_an_error(folder: Path, program: Path):
    program.write_text(PROGRAM.replace("plan) :", "show) echo Warning; exit 0 ;;\nplan) :"))
    with pytest.raises(TerraformError, match="printed no valid JSON"):
        _terraform(folder, program).show(folder / "a.tfplan")
