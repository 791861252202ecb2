"""The host program's wheel: deterministic, installable, complete."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

import terradask_host
from terradask_stacks.host_wheel import build_host_wheel

SOURCE = Path(terradask_host.__file__).parent


def test_the_same_files_give_the_same_bytes() -> None:
    one = build_host_wheel()
    for path in SOURCE.rglob("*.py"):
        os.utime(path)
    assert one.content == build_host_wheel().content
    assert one.sha256 == hashlib.sha256(one.content).hexdigest()
    assert (
        one.key == f"host/{one.sha256}/terradask_host-{terradask_host.__version__}-py3-none-any.whl"
    )
    assert one.name == one.key.rsplit("/", 1)[1]


def test_it_holds_the_package_and_nothing_else() -> None:
    with zipfile.ZipFile(io.BytesIO(build_host_wheel().content)) as archive:
        names = archive.namelist()
        assert all(info.date_time == (1980, 1, 1, 0, 0, 0) for info in archive.infolist())
        assert all(info.external_attr >> 16 == 0o100644 for info in archive.infolist())
    wanted = {
        f"terradask_host/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert "terradask_host/preload/launch.py" in wanted
    assert "terradask_host/boot.lock" in wanted
    assert len(names) == len(set(names)) == len(wanted) + 3


def test_pip_and_uv_install_it(tmp_path: Path) -> None:
    wheel = build_host_wheel()
    file = tmp_path / wheel.name
    file.write_bytes(wheel.content)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--offline"]
    for number, command in enumerate((pip, uv)):
        target = tmp_path / f"target-{number}"
        subprocess.run([*command, "--no-deps", "--no-index", "--target", target, file], check=True)
        code = "import terradask_host.agent.agent as agent; print(agent.__file__)"
        answer = subprocess.run(
            [sys.executable, "-S", "-c", code],
            env={"PYTHONPATH": str(target)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.startswith(str(target))


def test_building_does_not_import_the_host_program() -> None:
    code = (
        "import sys; from terradask_stacks.host_wheel import build_host_wheel;"
        "build_host_wheel(); print('terradask_host' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"


def test_the_boot_lock_is_exact_hashed_and_covers_the_programs_needs() -> None:
    text = (SOURCE / "boot.lock").read_text()
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        text,
        re.MULTILINE,
    )
    names = {name for name, _, _ in entries}
    assert {"botocore", "uv"} <= names
    lines = [
        line for line in text.splitlines() if line and not line.startswith(("#", "    --hash"))
    ]
    assert len(lines) == len(entries)
    assert "://" not in text
    import importlib.metadata

    needs = [Requirement(text) for text in importlib.metadata.requires("botocore") or []]
    assert {
        need.name.lower() for need in needs if need.marker is None or need.marker.evaluate()
    } <= names
