"""Packages that a file takes from a URL, for hosts of another platform than this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask._software.hosts import MACHINES
from terradask._software.local_wheels import build_direct
from terradask._software.pylock import DirectPackage
from terradask.errors import SoftwareUnusable

from ..package_index import publish, publish_source, serving

PYTHON = "cp{}{}".format(*sys.version_info)

#: Builds a wheel that is for the processor of `MACHINE` alone.
BACKEND = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "acme-1.0-py3-none-linux_MACHINE.whl"
    about = {"METADATA": "Metadata-Version: 2.1\\nName: acme\\nVersion: 1.0\\n", "RECORD": ""}
    about["WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: py3-none-linux_MACHINE\\n"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for file, text in about.items():
            wheel.writestr(f"acme-1.0.dist-info/{file}", text)
    return name
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with archives, and its URL."""
    with serving(tmp_path) as url:
        yield tmp_path, url.removesuffix("/simple") + "/files"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache")}


@pytest.mark.parametrize("architecture", sorted(MACHINES))
def test_a_wheel_for_hosts_is_taken_whatever_this_machine_is(
    served: tuple[Path, str], environ: dict[str, str], architecture: str
) -> None:
    root, url = served
    tag = f"{PYTHON}-{PYTHON}-manylinux_2_28_{MACHINES[architecture]}"
    digest = publish(root, "acme", "1.0", tag=tag)
    package = DirectPackage("acme", "archive", f"{url}/acme-1.0-{tag}.whl", digest)
    assert build_direct(package, architecture, environ).filename == f"acme-1.0-{tag}.whl"
    for other in MACHINES.keys() - {architecture}:
        with pytest.raises(SoftwareUnusable, match=f"for hosts with {other}"):
            build_direct(package, other, environ)


@pytest.mark.parametrize("architecture", sorted(MACHINES))
def test_what_its_source_builds_for_another_processor_is_refused(
    served: tuple[Path, str], environ: dict[str, str], architecture: str
) -> None:
    root, url = served
    (machine,) = {*MACHINES.values()} - {MACHINES[architecture]}
    publish_source(root, "acme", "1.0", BACKEND.replace("MACHINE", machine))
    package = DirectPackage("acme", "archive", f"{url}/acme-1.0.tar.gz")
    with pytest.raises(SoftwareUnusable, match=f"linux_{machine}"):
        build_direct(package, architecture, environ)
