"""The files for contributors' tools do what the Makefile does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import terradask
from terradask_host.agent.uv import find_uv

from ..checkout import copy_checkout

ROOT = Path(__file__).parents[2]
#: Variables that would lead to the environment that runs this.
_OF_HERE = {"VIRTUAL_ENV", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT"}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_hooks_run_what_lint_runs() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert hooks.keys() == {"ruff", "ruff-format", "style", "mypy"}
    lint = (
        MAKEFILE[MAKEFILE.index("\nlint:") :].partition("\n\n")[0].replace("@$(BIN)", ".venv/bin")
    )
    for hook in hooks.values():
        assert hook["language"] == "system"
        for program in re.findall(r"\.venv/bin/\w+", hook["entry"]):
            assert program in lint.replace("$(BIN)", ".venv/bin"), program


def test_the_development_container_runs_the_set_up() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert container["postCreateCommand"] == "make setup-tests"
    assert "\nsetup:" in MAKEFILE
    ci = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    terraform, node = (
        next(value for name, value in container["features"].items() if f"/{tool}:" in name)
        for tool in ("terraform", "node")
    )
    assert f'terraform_version: "{terraform["version"]}"' in ci
    assert f'node-version: "{node["version"]}"' in ci


def test_the_demo_installs_nothing_that_tests_alone_need(tmp_path: Path) -> None:
    for_tests = ("apt-get", "npm", "checkov", "chromium", "py-rattler", "-r requirements/dev.lock")
    demo, test = (
        subprocess.run(
            ["make", "--dry-run", "--always-make", target, f"VENV={tmp_path}/venv"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.replace("apt-get install python3-venv", "")
        for target in ("demo", "test")
    )
    assert "-r requirements/demo.lock" in demo
    assert [word for word in for_tests if word in demo] == []
    assert [word for word in for_tests if word not in test] == []


def test_the_hosted_site_is_built_as_make_docs_builds_it() -> None:
    build = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text(encoding="utf-8"))["build"]
    (*_, command) = build["jobs"]["build"]["html"]
    assert "--fail-on-warning --keep-going -c docs ." in command
    assert "--fail-on-warning --keep-going -c docs ." in MAKEFILE
    assert "--require-hashes -r requirements/dev.lock" in build["jobs"]["install"][0]


def test_uv_sync_installs_the_extras_of_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    assert project["tool"]["uv"]["default-groups"] == ["dev", "extras"]
    (extras,) = groups["extras"]
    (locked,) = (line for line in MAKEFILE.splitlines() if "--group dev" in line)
    # The embedded AWS is in the demo's too.
    wanted = {*re.findall(r"--extra (\w+)", locked)} - {"simulator"}
    assert extras == f"terradask[{','.join(sorted(wanted))}]"


@pytest.mark.life
def test_uv_sync_in_a_clone_runs_the_tests_and_make_restores_the_locks(tmp_path: Path) -> None:
    clone, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    cache = subprocess.run([find_uv(), "cache", "dir"], capture_output=True, text=True, check=True)
    environ = {
        **{name: value for name, value in os.environ.items() if name not in _OF_HERE},
        "HOME": str(home),
        "UV_CACHE_DIR": cache.stdout.strip(),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=clone, env=environ, capture_output=True, text=True, check=False
        )
        if "Failed to fetch" in done.stderr or "client error" in done.stderr:
            pytest.skip("no package index answers: name one in UV_DEFAULT_INDEX")
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    copy_checkout(clone)
    run(find_uv(), "sync", "--quiet", "--python", sys.executable)
    assert run(".venv/bin/terradask", "--version") == f"terradask {terradask.__version__}\n"
    assert "passed" in run(find_uv(), "run", "pytest", "-q", "tests/unit/test_release.py")
    assert (
        subprocess.run(
            ["git", "check-ignore", "--quiet", "uv.lock"], cwd=ROOT, check=False
        ).returncode
        == 0
    )

    run("make", ".venv/.installed")
    run(".venv/bin/pytest", "-q", "tests/unit/test_release.py")
    run("make", "--question", ".venv/.installed")
    version = "import importlib.metadata; print(importlib.metadata.version('rich'))"
    locked = run(".venv/bin/python", "-c", version)
    run(find_uv(), "pip", "install", "--quiet", f"rich!={locked.strip()}")
    run("make", ".venv/.installed")
    assert run(".venv/bin/python", "-c", version) == locked
