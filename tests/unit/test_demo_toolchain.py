"""What the demo needs is found, or refused, before it starts anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from terradask._terraform import binary, provider_mirror
from terradask._terraform.provider_mirror import this_platform
from terradask.errors import ProviderUnavailable, SetupError
from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION
from terradask_simulator.demo import main_job, toolchain
from terradask_simulator.demo.main_job import DemoPrinter, run_demo
from terradask_simulator.demo.toolchain import find_toolchain

from .test_doctor_provider import terraform


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a home folder without a configuration of Terraform."""
    home = tmp_path / "home"
    home.mkdir()
    for name in (provider_mirror.CLI_CONFIG_VARIABLE, "XDG_CACHE_HOME", "TF_PLUGIN_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "find_library", lambda: None)


@pytest.mark.usefixtures("no_library")
def test_without_terraform_one_line_brings_it_and_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(main_job, "_embedded_aws", lambda _printer: pytest.fail("AWS started"))
    monkeypatch.setattr(toolchain, "this_platform", lambda: "linux_amd64")
    with pytest.raises(SetupError, match="neither terraform nor tofu") as caught:
        run_demo(DemoPrinter(lambda _line: None))
    advice = str(caught.value.advice)
    assert "uvx --from 'terradask[demo,terraform]' terradask demo" in advice
    assert "BUSL-1.1" in advice
    assert "https://opentofu.org" in advice


def test_without_the_extras_packages_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_job, "_embedded_aws", lambda _printer: pytest.fail("AWS started"))
    monkeypatch.setattr(toolchain, "find_spec", {"s3fs": "there"}.get)
    with pytest.raises(SetupError, match="the demo needs pandas, pyarrow") as caught:
        run_demo(DemoPrinter(lambda _line: None))
    assert "terradask[demo]" in str(caught.value.advice)


@pytest.mark.usefixtures("no_library")
def test_the_line_is_left_out_where_it_would_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "this_platform", lambda: "linux_arm64")
    with pytest.raises(SetupError) as caught:
        list(find_toolchain({"PATH": str(tmp_path)}))
    assert "uvx" not in str(caught.value.advice)


def test_a_copy_of_the_provider_is_used_without_doctor(own_home: Path, tmp_path: Path) -> None:
    plugins = own_home / ".terraform.d/plugins"
    folder = plugins / "registry.terraform.io" / PROVIDER_SOURCE / PROVIDER_VERSION
    program = folder / this_platform() / f"terraform-provider-aws_v{PROVIDER_VERSION}"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    environ = terraform(tmp_path, error="could not connect to registry.terraform.io")
    _, found = find_toolchain(environ)
    assert found.endswith(f"from the mirror at {plugins}")
    assert provider_mirror.cli_config_in_use(os.environ).mirror == plugins


@pytest.mark.usefixtures("own_home")
def test_without_a_copy_and_a_registry_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = terraform(tmp_path, error="could not connect to registry.terraform.io")
    monkeypatch.setenv("TERRAFORM_BINARY_NAME", environ["TERRAFORM_BINARY_NAME"])
    monkeypatch.setattr(provider_mirror, "find_mirror", lambda **_: None)
    monkeypatch.setattr(main_job, "_embedded_aws", lambda _printer: pytest.fail("AWS started"))
    with pytest.raises(ProviderUnavailable) as caught:
        run_demo(DemoPrinter(lambda _line: None))
    assert caught.value.exit_code == 3
