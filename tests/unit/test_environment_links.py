"""The links of a conda environment as data: what is listed, and what no host makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from terradask_host.agent.environment_archive import LINKS, make_links, write_links
from terradask_host.errors import EnvironmentFailed


def test_links_are_listed_and_made_again(tmp_path: Path) -> None:
    made, there = tmp_path / "made", tmp_path / "there"
    (made / "lib/deep").mkdir(parents=True)
    (made / "lib/a.so.1").write_text("a")
    links = {
        "lib/a.so": "a.so.1",
        "lib/deep/a.so": "../a.so.1",
        "lib/nowhere": "absent/x",
        "folder": "lib/deep",
        "self": ".",
        "lib/top": "..",
    }
    for name, to in links.items():
        (made / name).symlink_to(to)
    (made / "lib/whole").symlink_to(made / "lib/deep")
    (made / "lib/around").symlink_to("deep/../a.so.1")
    links_as_listed = {**links, "lib/whole": "deep", "lib/around": "a.so.1"}
    outside = {
        "lib/etc": "/etc",
        "lib/up": "../..",
        "lib/far": "deep/../../../x",
        # What it passes is elsewhere.
        "lib/other": "top/../a.so.1",
    }
    for name, to in outside.items():
        (made / name).symlink_to(to)
    assert write_links(made) == sorted(outside)
    assert json.loads((made / LINKS).read_text()) == links_as_listed
    (there / "lib").mkdir(parents=True)
    (there / LINKS).write_bytes((made / LINKS).read_bytes())
    make_links(there)
    found = {
        p.relative_to(there).as_posix(): str(p.readlink())
        for p in there.rglob("*")
        if p.is_symlink()
    }
    assert found == links_as_listed


def test_a_package_does_not_write_the_list(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept")
    (tmp_path / LINKS).symlink_to("other")
    write_links(tmp_path)
    assert (tmp_path / "other").read_text() == "kept"
    assert "other" not in json.loads((tmp_path / LINKS).read_text())
    assert not (tmp_path / LINKS).is_symlink()


@pytest.mark.parametrize(
    "links",
    [
        {"x": "/etc/passwd"},
        {"x": ".."},
        {"x": "../outside"},
        {"lib/x": "../../outside"},
        {"lib/x": "down/../../../outside"},
        {"x": ""},
        {"x": "a\0b"},
        {"/x": "lib"},
        {"../x": "lib"},
        {"lib/../../x": "lib"},
        {"": "lib"},
        {"x\0": "lib"},
        # Each leads nowhere else alone.
        {"a": "lib/deep", "a/x": "../.."},
        {"a": ".", "a/a/a/x": "../../../outside"},
        {"file": "lib"},
        {"lib": "deep"},
    ],
    ids=str,
)
def test_no_link_leads_out_of_the_environment(tmp_path: Path, links: dict[str, str]) -> None:
    folder = tmp_path / "environment"
    (folder / "lib/deep").mkdir(parents=True)
    (folder / "file").write_text("kept")
    (folder / LINKS).write_text(json.dumps(links))
    with pytest.raises(EnvironmentFailed, match="list of links has one"):
        make_links(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["environment"]
    assert (folder / "file").read_text() == "kept"
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder), path


@pytest.mark.parametrize("content", [None, "{", "[]", '{"a": 1}', '{"a": null}'])
def test_a_list_that_can_not_be_read_is_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / LINKS).write_text(content)
    with pytest.raises(EnvironmentFailed, match="can't be read"):
        make_links(tmp_path)
