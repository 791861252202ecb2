"""The reviewed plan is the applied plan: what is refused, and what it is called."""

from __future__ import annotations

import datetime
import hashlib
import json
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from terradask._common.checksum import sha256_of_file
from terradask._plans.basis import (
    PlanArchive,
    PlanBasis,
    configuration_sha256,
    provider_version,
)
from terradask._plans.folder import PlanFolder
from terradask._plans.report import PlanReport, WorkspaceReport
from terradask._plans.saved import Plan, open_plan
from terradask._terraform.events import PlanFile
from terradask._terraform.state.model import StateVersion
from terradask.errors import InvalidInput, PlanChanged
from terradask_modules.where import Where
from terradask_stacks.version import terradask_version

from ..planned_changes import changes
from .report_data import CONTEXT, of_changes

CONFIGURATION = json.dumps({"terraform": {"backend": {"local": {"path": "x"}}}})
WHERE = Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
LOCK = 'provider "registry.terraform.io/hashicorp/aws" {\n  version     = "5.100.0"\n}\n'


def _plan(tmp_path: Path, stack: str = "network", **changed: Any) -> Plan:
    """Make a plan's file as Terraform does, as far as it is read, and a folder that it was planned
    in.
    """
    folder = tmp_path / "stacks" / stack
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cdk.tf.json").write_text(CONFIGURATION)
    (folder / ".terraform.lock.hcl").write_text(LOCK)
    file = tmp_path / f"{stack}.tfplan"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "tfstate", json.dumps({"terraform_version": "1.11.4", "serial": 7, "lineage": "line"})
        )
        archive.writestr("tfplan", changes({"path": "x"}))
        archive.writestr("tfconfig/m-/cdk.tf.json", CONFIGURATION)
        archive.writestr("tfconfig/modules.json", "[]")
    basis = PlanBasis(
        stack=stack,
        destroy=False,
        workspace="default",
        account="123456789012",
        region="us-east-1",
        terradask_version=terradask_version(),
        terraform_version="1.11.4",
        provider_version="5.100.0",
        configuration_sha256=configuration_sha256(folder),
        serial=7,
        lineage="line",
        planned_at=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    return Plan(
        folder=folder,
        plan_file=PlanFile(file, sha256_of_file(file), add=1),
        basis=replace(basis, **changed),
        show=lambda file: {},
    )


def _open(tmp_path: Path, saved: Path) -> Plan:
    return open_plan(saved, stacks=tmp_path / "stacks", show_in=lambda folder, file: {})


def _refused(what: str, check: Any, *arguments: Any, **options: Any) -> PlanChanged:
    with pytest.raises(PlanChanged) as caught:
        check(*arguments, **options)
    assert caught.value.what == what
    assert "plan again" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).what == what
    return caught.value


def test_what_was_saved_comes_back(tmp_path: Path):
    plan = _plan(tmp_path)
    opened = _open(tmp_path, plan.save(tmp_path / "saved"))
    assert (opened.basis, opened.hash, opened.stack, opened.changed) == (
        plan.basis,
        plan.hash,
        "network",
        True,
    )
    opened.check()
    opened.basis.check_origin(WHERE, terraform_version="1.11.4")
    opened.basis.check_state(StateVersion(7, "line"))
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "saved").iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("what", "where", "version"),
    [
        ("workspace", replace(WHERE, workspace="other"), "1.11.4"),
        ("account", replace(WHERE, account="999999999999"), "1.11.4"),
        ("region", replace(WHERE, region="eu-west-1"), "1.11.4"),
        ("Terraform version", WHERE, "1.12.0"),
    ],
)
def test_another_place_or_version_is_named(tmp_path: Path, what: str, where: Where, version: str):
    error = _refused(what, _plan(tmp_path).basis.check_origin, where, terraform_version=version)
    assert "planned" in str(error)
    assert "now" in str(error)


def test_the_other_program_is_named_even_of_the_same_version(tmp_path: Path):
    # Both programs compare nothing but the version.
    plan = _plan(tmp_path, program="OpenTofu")
    error = _refused("program", plan.basis.check_origin, WHERE, terraform_version="1.11.4")
    assert "planned OpenTofu, now Terraform" in str(error)
    opened = _open(tmp_path, plan.save(tmp_path / "saved"))
    opened.basis.check_origin(WHERE, terraform_version="1.11.4", program="OpenTofu")
    version = {"terraform_version": "1.11.5", "program": "OpenTofu"}
    _refused("OpenTofu version", opened.basis.check_origin, WHERE, **version)


def test_another_terradask_is_named(tmp_path: Path):
    _refused(
        "terradask version",
        _plan(tmp_path, terradask_version="0.0.1").basis.check_origin,
        WHERE,
        terraform_version="1.11.4",
    )


def test_an_old_plan_expires(tmp_path: Path):
    basis = _plan(tmp_path).basis
    planned = datetime.datetime.fromisoformat(basis.planned_at)
    basis.check_expiry(planned + datetime.timedelta(hours=23, minutes=59))
    _refused("expiry", basis.check_expiry, planned + datetime.timedelta(hours=24, seconds=1))
    _refused("expiry", _plan(tmp_path, planned_at="2026-01-01T00:00:00Z").check)


def test_another_configuration_or_provider_is_named(tmp_path: Path):
    plan = _plan(tmp_path)
    (plan.folder / "cdk.tf.json").write_text('{"x": 1}')
    _refused("configuration", plan.check)
    (plan.folder / ".terraform.lock.hcl").write_text(LOCK.replace("5.100", "6.0"))
    assert provider_version(plan.folder) == "6.0.0"
    _refused("provider version", plan.check)
    assert provider_version(tmp_path) == configuration_sha256(tmp_path) == ""


def test_another_state_is_named(tmp_path: Path):
    basis = _plan(tmp_path).basis
    _refused("state serial", basis.check_state, StateVersion(8, "line"))
    _refused("state lineage", basis.check_state, StateVersion(7, "other"))
    _refused("state lineage", basis.check_state, StateVersion())
    _refused(
        "state lineage", replace(basis, serial=0, lineage="").check_state, StateVersion(1, "line")
    )
    replace(basis, serial=0, lineage="").check_state(StateVersion())


def test_a_truncated_or_exchanged_file_is_refused(tmp_path: Path):
    file = _plan(tmp_path).save(tmp_path / "saved")
    content = file.read_bytes()
    for other in (content[: len(content) // 2], content + b"x", b""):
        file.write_bytes(other)
        _refused("file", _open, tmp_path, file)
    file.unlink()
    _refused("file", _open, tmp_path, file)
    cut = tmp_path / "cut"
    cut.write_bytes(content[:-30])
    _refused("file", PlanArchive.read, cut)
    with zipfile.ZipFile(cut, "w") as archive:
        archive.writestr("tfstate", "[]")
    _refused("file", PlanArchive.read, cut)


@pytest.mark.parametrize(
    ("edit"),
    [
        lambda d: d["basis"].update(planned_at="2030-01-01T00:00:00Z"),
        lambda d: d["basis"].update(stack="etl"),
        lambda d: d["basis"].update(serial=8),
        lambda d: d["file"].update(sha256="0" * 64),
        lambda d: d["file"].update(creates=["aws_x.y"]),
    ],
)
def test_what_lies_beside_the_plan_is_not_to_be_edited(tmp_path: Path, edit: Any):
    file = _plan(tmp_path).save(tmp_path / "saved")
    sidecar = file.with_name("plan.tfplan.json")
    document = json.loads(sidecar.read_text())
    edit(document)
    sidecar.write_text(json.dumps(document))
    _refused("sidecar", _open, tmp_path, file)


@pytest.mark.parametrize("stack", ["../../elsewhere", "/elsewhere", ".", "A"])
def test_a_plan_is_of_a_stack_and_names_no_other_folder(tmp_path: Path, stack: str):
    file = _plan(tmp_path).save(tmp_path / "saved")
    sidecar = file.with_name("plan.tfplan.json")
    document = json.loads(sidecar.read_text())
    document["basis"]["stack"] = stack
    del document["checksum"]
    text = json.dumps(document, sort_keys=True)
    document["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    sidecar.write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="name"):
        _open(tmp_path, file)


def test_the_plan_itself_says_which_state_and_terraform_it_is_of(tmp_path: Path):
    _refused("sidecar", _open, tmp_path, _plan(tmp_path, serial=8).save(tmp_path / "serial"))
    _refused(
        "sidecar",
        _open,
        tmp_path,
        _plan(tmp_path, terraform_version="1.12.0").save(tmp_path / "version"),
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 3, "checksum": "", "x": 1}', "no JSON"]
)
def test_no_plan_of_ours(tmp_path: Path, text: str):
    file = _plan(tmp_path).save(tmp_path / "saved")
    file.with_name("plan.tfplan.json").write_text(text)
    with pytest.raises(InvalidInput, match="no saved plan"):
        _open(tmp_path, file)
    with pytest.raises(InvalidInput, match="no saved plan"):
        _open(tmp_path, tmp_path)


# ---- folders of plans ----------------------------------------------------------------------------


def _report(plan: Plan) -> PlanReport:
    made = of_changes(stack=plan.stack)
    return replace(made, summary=replace(made.summary, plan_hash=plan.hash))


def _write(tmp_path: Path, *stacks: str) -> PlanFolder:
    plans = [_plan(tmp_path, stack) for stack in stacks]
    folder = PlanFolder(tmp_path / "out")
    folder.write(WorkspaceReport(CONTEXT, tuple(map(_report, plans))), plans)
    return folder


def _files(folder: PlanFolder) -> set[str]:
    return {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}


def test_a_second_plan_replaces_the_first(tmp_path: Path):
    folder = _write(tmp_path, "network", "etl")
    assert [path.parent.name for path in folder.plans()] == ["network", "etl"]
    names = ("plan.tfplan", "plan.tfplan.json", "report.md", "report.json", "report.sarif")
    own = {".gitignore", "report.md", "report.json"}
    assert _files(folder) == {
        *own,
        *(f"{stack}/{name}" for stack in ("network", "etl") for name in names),
    }
    (folder.path / "etl/.plan.tfplan.x1y2").write_text("left by an interruption")
    folder = _write(tmp_path, "network")
    assert _files(folder) == {*own, *(f"network/{name}" for name in names)}
    assert not (folder.path / "etl").exists()


@pytest.mark.parametrize(
    "name", ["notes.txt", "etl/main.tf", ".git/config", "etl/deeper/report.md", "etl/.gitignore"]
)
def test_other_peoples_files_are_refused_and_kept(tmp_path: Path, name: str):
    folder = _write(tmp_path, "network")
    foreign = folder.path / name
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("mine")
    before = _files(folder)
    with pytest.raises(InvalidInput, match="contains other files"):
        _write(tmp_path, "etl")
    assert _files(folder) == before


def test_git_ignores_the_folder_unless_somebody_wrote_other_rules(tmp_path: Path):
    folder = _write(tmp_path, "network")
    assert (folder.path / ".gitignore").read_text() == "*\n"
    assert [path.parent.name for path in folder.plans()] == ["network"]
    (folder.path / ".gitignore").write_text("*.log\n")
    with pytest.raises(InvalidInput, match="contains other files"):
        _write(tmp_path, "network")


def test_a_link_is_not_followed(tmp_path: Path):
    folder = _write(tmp_path, "network")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.md").write_text("mine")
    (folder.path / "etl").symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match="contains other files"):
        _write(tmp_path, "network")
    assert (elsewhere / "report.md").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InvalidInput, match="into a folder"):
        _write(tmp_path, "network")


def test_a_folder_that_is_not_whole_or_not_as_reported_is_refused(tmp_path: Path):
    folder = _write(tmp_path, "network", "etl")
    other = _plan(tmp_path, "etl", serial=7)
    with zipfile.ZipFile(other.file, "a") as archive:
        archive.writestr("more", "")
    exchanged = Plan(
        folder=other.folder,
        plan_file=PlanFile(other.file, sha256_of_file(other.file)),
        basis=other.basis,
        show=lambda file: {},
    )
    exchanged.save(folder.path / "etl/plan.tfplan")
    _refused("report", folder.plans)
    (folder.path / "etl/plan.tfplan.json").unlink()
    _refused("file", folder.plans)
    (folder.path / "report.json").write_text("{")
    with pytest.raises(InvalidInput, match="no saved plan"):
        folder.plans()
