"""Packages in source folders, and installing with the real uv, offline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from terradask_host.agent.uv import find_uv


def source_folder(root: Path, name: str = "acme-tools", version: str = "1.0") -> Path:
    """Make a package's source folder with one module."""
    folder, module = root / name, name.replace("-", "_")
    folder.mkdir(parents=True)
    (folder / f"{module}.py").write_text("")
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
        # An editable installation is then a path file, which needs no further package.
        '[tool.hatch.build]\ndev-mode-dirs = ["."]\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    )
    return folder


def install(site: Path, *what: str) -> None:
    """Install into a folder, without dependencies."""
    command = [find_uv(), "pip", "install", "--quiet", "--no-config", "--no-cache", "--no-deps"]
    options = ["--no-build-isolation", "--python", sys.executable, "--target", str(site)]
    subprocess.run([*command, *options, *what], check=True)
