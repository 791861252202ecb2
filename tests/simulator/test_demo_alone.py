"""The demo by the README's line, on a machine with uv and nothing of ours: no clone, no make, a new
home. Needs a package index.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from terradask._terraform import provider_mirror
from terradask_host.agent.uv import find_uv

from ..command import run_checked
from ..light_environment import ROOT, built_wheels, only_programs, run_uv
from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.life, pytest.mark.timeout(1200)]

#: Of the machine's: where its index and certificates are.
KEPT = ("UV_", "PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")


def test_the_readmes_line_runs_the_demo(tmp_path: Path) -> None:
    if provider_mirror.find_mirror() is None:
        pytest.skip("no copy of the AWS provider on this machine: see docs/state.md")
    (line,) = re.findall(r"^uvx .*$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    wheels, home = tmp_path / "wheels", tmp_path / "home"
    built_wheels(wheels, ROOT, ROOT / "simulator")
    home.mkdir()
    uvx = str(Path(find_uv()).with_name("uvx"))
    terraform = shutil.which("terraform")
    programs = [find_uv(), uvx, *([terraform] if terraform else [])]
    environ = {name: value for name, value in os.environ.items() if name.startswith(KEPT)} | {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(only_programs(tmp_path / "bin", *programs)), os.defpath]),
        "UV_CACHE_DIR": run_uv("cache", "dir").strip(),
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON": sys.executable,
    }
    command = shlex.split(line if terraform else line.replace("[demo]", "[demo,terraform]"))
    # Not what an earlier run has left in uv's cache: the version is the same.
    command[1:1] = ["--reinstall-package=terradask", "--reinstall-package=terradask-simulator"]
    run_uv("tool", "run", *command[1:-1], "--version", environ=environ)
    done = run_checked(command, folder=home, environ=environ, limit_seconds=3 * PROCESS_SECONDS)
    assert "CDKTF isn't in this environment: making one for it" in done.stdout
    assert re.search(r"hashicorp/aws [\d.]+ from the mirror at ", done.stdout)
    assert "nothing is left" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stderr
