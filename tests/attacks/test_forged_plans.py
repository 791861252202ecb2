"""Who may write a folder of saved plans puts another plan there, with data beside it that fit; it
is opened and applied in Python, without a look at it.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask._common.checksum import sha256_of_file
from terradask._plans.basis import PlanBasis, check_planned_configuration
from terradask._plans.policy_gate import PolicyGate
from terradask._plans.saved import Plan
from terradask._terraform.events import PlanFile
from terradask._terraform.folder_contents import CONFIGURATION
from terradask._terraform.terraform import Terraform
from terradask.errors import PlanChanged, PolicyViolation
from terradask_simulator import Simulator
from terradask_stacks.settings import Settings

from ..planned_changes import STATE_STORE, changes
from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator

FOREIGN = "arn:aws:iam::999999999999:root"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": FOREIGN}}
        ],
    }
)
EVERYTHING = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
)
ADMINISTRATOR = {
    "aws_iam_role": {"theirs": {"name": "theirs", "assume_role_policy": TRUST}},
    "aws_iam_role_policy": {
        "theirs": {"role": "${aws_iam_role.theirs.name}", "name": "theirs", "policy": EVERYTHING}
    },
}
SETTINGS = """
[network]
cidr = "{cidr}"
zones = ["us-east-1a"]
nat = "none"
public_workers = true
"""


def _forge(saved: Path, folder: Path, plan: Path) -> None:
    """Put another plan in the place of the one that was saved, as its author would."""
    plan.replace(saved / "network/plan.tfplan")
    digest = sha256_of_file(saved / "network/plan.tfplan")
    sidecar = saved / "network/plan.tfplan.json"
    document = json.loads(sidecar.read_text())
    document.pop("checksum")
    document["file"]["sha256"] = digest
    text = json.dumps(document, sort_keys=True)
    document["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    sidecar.write_text(json.dumps(document))
    report = saved / "report.json"
    document = json.loads(report.read_text())
    document["stacks"]["network"]["plan_sha256"] = digest
    report.write_text(json.dumps(document))


@pytest.mark.simulator
@pytest.mark.life
def test_python_applies_no_other_plan_than_the_command_line(
    quick_provider: QuickProvider, tmp_path: Path
) -> None:
    with QuickSimulator.start(boot_hosts=False) as aws:
        aws.provider = quick_provider
        with aws.applied():
            _planned_and_forged(aws, tmp_path)


def _planned_and_forged(aws: Simulator, tmp_path: Path) -> None:
    (tmp_path / "terradask.toml").write_text(SETTINGS.format(cidr=aws.vpc_cidr))
    saved = tmp_path / "plans"
    workspace = Workspace.load(tmp_path)
    workspace.plan(["network"]).save(saved)
    (opened,) = workspace.open_plans(saved)
    folder = opened.folder
    reviewed = (folder / CONFIGURATION).read_text()
    theirs = json.loads(reviewed)
    for kind, resources in ADMINISTRATOR.items():
        theirs["resource"].setdefault(kind, {}).update(copy.deepcopy(resources))
    (folder / CONFIGURATION).write_text(json.dumps(theirs))
    forged = Terraform(folder).plan(tmp_path / "forged.tfplan")
    assert "aws_iam_role.theirs" in forged.creates
    _forge(saved, folder, forged.path)

    workspace = Workspace.load(tmp_path)
    # Without looking at it, as a script does.
    with pytest.raises((PlanChanged, PolicyViolation)):
        _apply_all(workspace, saved)
    assert (folder / CONFIGURATION).read_text() == reviewed
    with contextlib.closing(aws.client("iam")) as iam:
        assert "theirs" not in [role["RoleName"] for role in iam.list_roles()["Roles"]]


def _apply_all(workspace: Workspace, saved: Path) -> None:
    for plan in workspace.open_plans(saved):
        workspace.apply(plan)


def _document(**after: Any) -> dict[str, Any]:
    """Return a plan's JSON that makes a role which a foreign account may take."""
    role = {"name": "theirs", "assume_role_policy": TRUST, **after}
    about = {
        "address": "aws_iam_role.theirs",
        "mode": "managed",
        "type": "aws_iam_role",
        "name": "theirs",
    }
    marks: dict[str, Any] = {"after_unknown": {}, "after_sensitive": {}}
    change = {"actions": ["create"], "before": None, "after": role, **marks}
    return {
        "format_version": "1.2",
        "planned_values": {"root_module": {"resources": [{**about, "values": role}]}},
        "resource_changes": [{**about, "change": change}],
        "configuration": {"root_module": {"resources": [about]}},
    }


def _plan(
    folder: Path,
    document: dict[str, Any],
    *,
    destroy: bool,
    opened: bool,
    expected: bytes | None = None,
) -> Plan:
    backend = {"local": {"path": "../state/network.tfstate"}}
    (folder / CONFIGURATION).write_text(json.dumps({"terraform": {"backend": backend}}))
    basis = PlanBasis(
        stack="network",
        destroy=destroy,
        workspace="default",
        account="123456789012",
        region="us-east-1",
        terradask_version="",
        terraform_version="",
        provider_version="",
        configuration_sha256="",
        serial=0,
        lineage="",
        planned_at=datetime.datetime.now(datetime.UTC).isoformat(),
    )
    return Plan(
        folder=folder,
        plan_file=PlanFile(folder / "x.tfplan", ""),
        basis=basis,
        show=lambda _: document,
        opened=opened,
        expected=expected,
    )


def test_a_configuration_that_was_edited_before_it_was_planned_is_refused(tmp_path: Path) -> None:
    aws: Any = None
    gate = PolicyGate(Settings(), aws, tmp_path / "terradask.lock.json")
    backend = {"local": {"path": "../state/network.tfstate"}}
    ours = json.dumps({"terraform": {"backend": backend}}).encode()
    gate.refuse_forbidden(_plan(tmp_path, {}, destroy=False, opened=False, expected=ours))
    # The plan is of what lies in the folder, and its checksums say so.
    theirs = ours.replace(b"network.tfstate", b"another.tfstate")
    with pytest.raises(PolicyViolation, match=r"P8 terraform: sets backend\.local\.path"):
        gate.refuse_forbidden(_plan(tmp_path, {}, destroy=False, opened=False, expected=theirs))


@pytest.mark.parametrize("destroy", [False, True])
def test_what_a_plan_from_a_file_does_is_judged_and_not_what_is_said_of_it(
    tmp_path: Path, destroy: bool
) -> None:
    aws: Any = None
    gate = PolicyGate(Settings(), aws, tmp_path / "terradask.lock.json")
    # The configuration in the folder has no role, and the data beside the plan say: it destroys.
    with pytest.raises(PolicyViolation, match=r"aws_iam_role\.theirs"):
        gate.refuse_forbidden(_plan(tmp_path, _document(), destroy=destroy, opened=True))
    removal = _document()
    removal["resource_changes"][0]["change"] = {"actions": ["delete"], "before": {}, "after": None}
    gate.refuse_forbidden(_plan(tmp_path, removal, destroy=True, opened=True))


def _write_plan(path: Path, configuration: Mapping[str, bytes], changed: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        state = {"terraform_version": "1", "serial": 0, "lineage": ""}
        archive.writestr("tfstate", json.dumps(state))
        archive.writestr("tfplan", changed)
        archive.writestr("tfconfig/modules.json", "[]")
        for name, content in configuration.items():
            archive.writestr(f"tfconfig/{name}", content)


OWN_STATE = changes({"path": "../state/network.tfstate", "workspace_dir": None})


def test_a_plans_file_brings_no_other_configuration_along(tmp_path: Path) -> None:
    plan = _plan(tmp_path, {}, destroy=False, opened=True)
    written = (tmp_path / CONFIGURATION).read_bytes()
    imports = json.dumps({"import": [{"to": "x.y", "id": "z"}]}).encode()
    for extra, fits in (
        ({}, True),
        ({"m-/imports.tf.json": imports}, True),
        ({"m-/imports.tf.json": b'{"provider": {}}'}, False),
        ({"m-/extra.tf": b""}, False),
        ({"m-theirs/main.tf": b""}, False),
        ({f"m-/{CONFIGURATION}": written + b" "}, False),
    ):
        _write_plan(plan.file, {f"m-/{CONFIGURATION}": written, **extra}, OWN_STATE)
        if fits:
            check_planned_configuration(plan.file, tmp_path)
        else:
            with pytest.raises(PlanChanged, match="configuration differs"):
                check_planned_configuration(plan.file, tmp_path)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (changes({"path": "theirs.tfstate"}), "backend differs"),
        (changes({"path": "../state/network.tfstate", "workspace_dir": "x"}), "backend differs"),
        (OWN_STATE + changes({"path": "theirs.tfstate"}), "exactly one"),
        (OWN_STATE + changes({"path": "theirs.tfstate"}, number=STATE_STORE), "exactly one"),
        (changes({"path": "../state/network.tfstate"}, workspace="theirs"), "another workspace"),
        (OWN_STATE[:-20], "can't be read"),
        (OWN_STATE[:1], "can't be read"),
        (OWN_STATE.replace(b"\x82", b"\x93"), "can't be read"),
        (b"\xff" * 20, "can't be read"),
        (b"\x0f", "can't be read"),
        (b"", "exactly one"),
    ],
)
def test_a_plans_file_keeps_the_state_nowhere_else(
    tmp_path: Path, changed: bytes, what: str
) -> None:
    plan = _plan(tmp_path, {}, destroy=False, opened=True)
    _write_plan(
        plan.file, {f"m-/{CONFIGURATION}": (tmp_path / CONFIGURATION).read_bytes()}, changed
    )
    with pytest.raises(PlanChanged, match=what):
        check_planned_configuration(plan.file, tmp_path)
