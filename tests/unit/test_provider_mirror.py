"""Copies of the provider on a machine: found, used, and not mistaken for others."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from terradask._terraform import provider_mirror as mirrors


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mirrors, "own_cli_config", lambda: tmp_path / "cache" / "terraform.rc")
    return tmp_path / "cache"


def _mirror(
    folder: Path,
    *,
    platform: str | None = None,
    version: str = mirrors.PROVIDER_VERSION,
    mode: int = 0o755,
) -> Path:
    binary = (
        folder
        / "registry.terraform.io/hashicorp/aws"
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
