"""Copies of the provider on a machine: found, used, and not mistaken for others."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from terradask._terraform import provider_mirror as mirrors
from terradask._terraform.program import OPENTOFU, PROGRAMS, TERRAFORM, Program


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/terradask"


def _mirror(
    folder: Path,
    *,
    platform: str | None = None,
    version: str = mirrors.PROVIDER_VERSION,
    mode: int = 0o755,
    program: Program = TERRAFORM,
) -> Path:
    binary = (
        folder
        / program.provider
        / version
        / (platform or mirrors.this_platform())
        / "terraform-provider-aws_v5_x5"
    )
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\n")
    binary.chmod(mode)
    return folder


def test_mirror_is_found_and_named(tmp_path: Path):
    _mirror(tmp_path / "a/b/c")
    assert mirrors.find_mirror([tmp_path]) == tmp_path / "a/b/c"


@pytest.mark.parametrize(
    "wrong", [{"platform": "plan9_mips"}, {"version": "5.99.0"}, {"mode": 0o644}]
)
def test_what_would_not_serve_is_passed_over(tmp_path: Path, wrong: dict):
    _mirror(tmp_path / "wrong", **wrong)
    assert mirrors.find_mirror([tmp_path]) is None
    _mirror(tmp_path / "right")
    assert mirrors.find_mirror([tmp_path]) == tmp_path / "right"


def test_search_is_bounded_in_depth_and_time(tmp_path: Path):
    _mirror(tmp_path / "1/2/3/4/5/6/7")
    assert mirrors.find_mirror([tmp_path], depth=3) is None
    assert mirrors.find_mirror([tmp_path], limit_seconds=0) is None
    assert mirrors.find_mirror([tmp_path / "missing"]) is None


def test_caches_and_links_are_not_walked(tmp_path: Path):
    _mirror(tmp_path / ".cache/x")
    _mirror(tmp_path / "node_modules/x")
    _mirror(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    (tmp_path / "link").symlink_to(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    assert mirrors.find_mirror([tmp_path]) is None


def test_whole_machine_is_searched_within_the_limit(monkeypatch: pytest.MonkeyPatch):
    # A second for each folder.
    clock = itertools.count()
    monkeypatch.setattr(mirrors, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    mirrors.find_mirror([Path("/")], version="0.0.0", limit_seconds=5)
    assert next(clock) == 7


def test_written_configuration_is_used_when_nothing_else_is_named(tmp_path: Path, cache: Path):
    home = {"HOME": str(tmp_path / "home")}
    assert mirrors.cli_config_in_use(home).kind == "registry"
    mirror = _mirror(tmp_path / 'odd "name" ${x}')
    written = mirrors.write_cli_config(mirror)
    assert written == cache / "terraform.rc"
    for environ in (
        home,
        {**home, "TF_CLI_CONFIG_FILE": "/no/such/file"},
        {**home, "TF_CLI_CONFIG_FILE": str(written)},
    ):
        found = mirrors.cli_config_in_use(environ)
        assert (found.kind, found.cli_config, found.mirror) == ("mirror", written, mirror)
        assert str(mirror) in str(found)


def test_users_own_configuration_is_always_honoured(tmp_path: Path, cache: Path):
    mirrors.write_cli_config(_mirror(tmp_path / "m"))
    own = tmp_path / "own.tfrc"
    own.write_text("")
    found = mirrors.cli_config_in_use({"HOME": str(tmp_path), "TF_CLI_CONFIG_FILE": str(own)})
    assert (found.kind, found.cli_config) == ("user", own)
    default = tmp_path / ".terraformrc"
    default.write_text("")
    found = mirrors.cli_config_in_use({"HOME": str(tmp_path)})
    assert (found.kind, found.cli_config) == ("user", default)


def test_mirror_that_has_gone_is_no_source(tmp_path: Path, cache: Path):
    mirrors.write_cli_config(tmp_path / "gone")
    assert mirrors.cli_config_in_use({"HOME": str(tmp_path)}).kind == "registry"


# ---- OpenTofu's ----------------------------------------------------------------------------------


def test_each_program_finds_its_own_copy(tmp_path: Path):
    _mirror(tmp_path / "a")
    assert mirrors.find_mirror([tmp_path], program=OPENTOFU) is None
    _mirror(tmp_path / "b", program=OPENTOFU)
    assert mirrors.find_mirror([tmp_path], program=OPENTOFU) == tmp_path / "b"
    assert mirrors.find_mirror([tmp_path]) == tmp_path / "a"


def test_each_program_has_its_own_written_configuration(tmp_path: Path, cache: Path):
    folders = {each: _mirror(tmp_path / each.command, program=each) for each in PROGRAMS}
    written = {
        each: mirrors.write_cli_config(folder, program=each) for each, folder in folders.items()
    }
    assert written == {TERRAFORM: cache / "terraform.rc", OPENTOFU: cache / "tofu.rc"}
    for each in PROGRAMS:
        # Also while the environment names the one of the other program.
        for named in ({}, *({"TF_CLI_CONFIG_FILE": str(path)} for path in written.values())):
            found = mirrors.cli_config_in_use({"HOME": str(tmp_path), **named}, each)
            assert (found.kind, found.cli_config) == ("mirror", written[each])
            assert found.mirror == folders[each]
        assert f'include = ["{each.registry}/*/*"]' in written[each].read_text()
    (cache / "tofu.rc").unlink()
    found = mirrors.cli_config_in_use({"HOME": str(tmp_path)}, OPENTOFU)
    assert (found.kind, str(found)) == ("registry", "registry.opentofu.org")


def test_opentofus_settings_are_found_as_it_finds_them(tmp_path: Path, cache: Path):
    home, folder = tmp_path / "home", tmp_path / "config/opentofu"
    for made in (home, folder):
        made.mkdir(parents=True)
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(folder.parent)}
    for path in (folder / "tofurc", home / ".terraformrc", home / ".tofurc"):
        path.write_text("")
        found = mirrors.cli_config_in_use(environ, OPENTOFU)
        assert (found.kind, found.cli_config) == ("user", path)
    (home / ".terraformrc").unlink()
    assert mirrors.cli_config_in_use(environ, TERRAFORM).kind == "registry"


def test_opentofu_searches_terraforms_folders_too(tmp_path: Path):
    environ = {"HOME": "/h", "XDG_DATA_HOME": "/data", "XDG_DATA_DIRS": "/usr/share"}
    terraforms = mirrors.implied_mirrors(environ, TERRAFORM)
    opentofus = mirrors.implied_mirrors(environ, OPENTOFU)
    assert set(opentofus) - set(terraforms) == {Path("/data/opentofu/plugins")}
    assert set(terraforms) <= set(opentofus)
