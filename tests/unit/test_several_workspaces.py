"""The workspaces of several folders: which are found, that one which fails hides no other, and one
comment for the plans of all.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask._clusters.overview import ClusterOverview
from terradask._plans.folder import Plans
from terradask._plans.render_markdown import MARKDOWN_LIMIT
from terradask._workspace import folders
from terradask._workspace.folders import InFolder, in_each, workspace_folders
from terradask._workspace.workspace import Workspace
from terradask.cli._render_folders import ALL_MARKER, PlannedFolder, several_markdown
from terradask.errors import InvalidInput, SettingsError, TerradaskError

from ..command import in_this_process
from .report_data import large, report, whole

ACCOUNTS = {"dev": "123456789012", "prod": "210987654321"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders with two workspaces, and one whose settings can't be used."""
    for name in ("envs/dev", "envs/prod", "broken"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "envs/dev/terradask.toml").write_text('[workspace]\nname = "dev"\n')
    (tmp_path / "envs/prod/terradask.toml").write_text(
        '[workspace]\nname = "prod"\nregion = "eu-west-1"\n[clusters.etl]\n'
    )
    (tmp_path / "broken/terradask.toml").write_text('[workspace]\nnme = "x"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        Workspace, "account_id", property(lambda self: ACCOUNTS[self.settings.workspace.name])
    )
    return tmp_path


def test_folders_with_settings_are_found_at_any_depth(tmp_path: Path) -> None:
    wanted = ["here", "here/below/deeper", "there"]
    others = [".git/x", "here/cdktf.out/x", "node_modules/x"]
    for name in (*wanted, *others):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "terradask.toml").write_text("")
    (tmp_path / "there/link").symlink_to(tmp_path / "here")
    assert workspace_folders([tmp_path]) == [tmp_path / name for name in wanted]
    assert workspace_folders([tmp_path / "here", tmp_path]) == workspace_folders([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"no folder has a terradask\.toml"):
        workspace_folders([tmp_path / "empty"])


def test_one_that_fails_leaves_the_others_alone(root: Path) -> None:
    def work(workspace: Workspace) -> str:
        if workspace.region == "eu-west-1":
            raise ClientError({"Error": {"Code": "Throttling", "Message": "slow"}}, "X")
        return workspace.settings.workspace.name

    for at_once in (1, 8):
        broken, dev, prod = in_each(workspace_folders([root]), work, at_once=at_once)
        assert isinstance(broken.error, SettingsError)
        assert (broken.folder, broken.account, broken.region) == ("broken", None, None)
        assert (dev.folder, dev.found, dev.error) == ("envs/dev", "dev", None)
        assert (prod.account, prod.region, prod.workspace) == (
            ACCOUNTS["prod"],
            "eu-west-1",
            "prod",
        )
        assert "Throttling" in str(prod.reason)


def test_another_users_file_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "foreign_owner", lambda *_: 1234)
    found = in_each(workspace_folders([root]), lambda workspace: pytest.fail("was loaded"))
    assert len(found) == 3
    assert all("user 1234" in str(one.error) for one in found)


def test_the_list_has_a_row_for_each_and_its_exit_code_says_that_one_failed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ClusterOverview("prod", "big", "running", workers=(2, 3), max_workers=9)
    monkeypatch.setattr(
        Workspace, "overview", lambda self: [one] if self.region == "eu-west-1" else []
    )
    done = in_this_process("list", "--all")
    # A state may be two words.
    rows = [re.split(r"  +", line.strip()) for line in done.stdout.splitlines()]
    assert rows[0][:6] == ["FOLDER", "ACCOUNT", "REGION", "WORKSPACE", "NAME", "STATE"]
    assert rows[1][:6] == ["broken", "-", "-", "-", "-", "failed"]
    assert "can't be used" in done.stdout.splitlines()[1]
    assert [row[:7] for row in rows[2:]] == [
        ["envs/dev", ACCOUNTS["dev"], "us-east-1", "dev", "-", "-", "-"],
        ["envs/prod", ACCOUNTS["prod"], "eu-west-1", "prod", "big", "running", "2/3"],
        ["envs/prod", ACCOUNTS["prod"], "eu-west-1", "prod", "etl", "not deployed", "0/0"],
    ]
    assert done.returncode == SettingsError.exit_code
    assert "did you mean name?" in done.stderr
    printed = json.loads(in_this_process("list", "--all", "--in", "envs", "--json").stdout)
    assert [(one["folder"], len(one["clusters"]), one["error"]) for one in printed] == [
        ("envs/dev", 0, None),
        ("envs/prod", 2, None),
    ]
    assert in_this_process("list", "--all", "--in", "envs").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--in", "."),
        ("list", "--all", "--all-workspaces"),
        ("plan", "--in", "."),
        ("plan", "--all", "network"),
        ("plan", "--all", "--out", "plans"),
    ],
)
def test_what_is_for_one_workspace_is_refused_with_all(
    root: Path, arguments: tuple[str, ...]
) -> None:
    done = in_this_process(*arguments)
    assert done.returncode == 2
    assert "--all" in done.stderr


def test_plans_of_all_do_not_share_a_state_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRADASK_STATE_DIR", str(root / "state"))
    done = in_this_process("plan", "--all")
    assert done.returncode == 2
    assert "unset TERRADASK_STATE_DIR" in done.stderr


def _planned(folder: str, found: Any, reason: str | None = None) -> PlannedFolder:
    place = {"account": ACCOUNTS["dev"], "region": "us-east-1", "workspace": "dev"}
    if reason is not None:
        return InFolder(folder, error=TerradaskError(reason), **place)
    return InFolder(folder, Plans((), found), **place)


def test_one_comment_has_a_table_of_all_and_the_changes_of_each() -> None:
    text = several_markdown(
        [
            _planned("envs/dev", whole(report("change"), report("create", stack="etl"))),
            _planned("envs/same", whole(report("clean"))),
            _planned("envs/lost", None, "AWS refuses <b>sts:AssumeRole</b>"),
        ]
    )
    lines = text.splitlines()
    assert lines[0] == ALL_MARKER
    assert lines[1] == "## 1 of 3 workspaces change, 1 could not be planned"
    rows = [line for line in lines if line.startswith("| `envs/")]
    assert [[cell.strip() for cell in row.split("|")[2:4]] for row in rows] == [
        ["network", "needs review: 3 to update, 2 to replace, 1 to destroy"],
        ["etl", "needs review: 11 to create"],
        ["network", "no changes"],
        ["-", "could not be planned: AWS refuses &lt;b&gt;sts:AssumeRole&lt;/b&gt;"],
    ]
    assert "- `envs/lost` AWS refuses &lt;b&gt;sts:AssumeRole" in text
    assert text.count("**Policy**") <= 1
    assert "> [!CAUTION]" in text
    # A saved plan can be applied; these aren't saved. Nor are they a single workspace's comment.
    assert "terradask apply" not in text
    assert "<!-- terradask plan default" not in text


@pytest.mark.parametrize("number", [1, 8, 60, 200, 900])
def test_it_fits_a_comment_whatever_the_number_of_workspaces(number: int) -> None:
    report_ = large(200)
    many = [_planned(f"envs/{at:03}", report_) for at in range(number)]
    text = several_markdown(many)
    assert len(text) <= MARKDOWN_LIMIT
    assert text.startswith(ALL_MARKER)
    shown = [at for at in range(number) if f"`envs/{at:03}`" in text]
    assert len(shown) == number or "more workspaces in the JSON" in text
