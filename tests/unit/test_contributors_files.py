"""The files for contributors' tools do what the Makefile does."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
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


def test_the_demo_installs_nothing_that_tests_alone_need() -> None:
    for_tests = ("apt-get", "npm", "checkov", "chromium", "py-rattler")
    demo, test = (
        subprocess.run(
            ["make", "--dry-run", "--always-make", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.replace("apt-get install python3-venv", "")
        for target in ("demo", "test")
    )
    assert "requirements/dev.lock" in demo
    assert [word for word in for_tests if word in demo] == []
    assert [word for word in for_tests if word not in test] == []


def test_the_hosted_site_is_built_as_make_docs_builds_it() -> None:
    build = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text(encoding="utf-8"))["build"]
    (*_, command) = build["jobs"]["build"]["html"]
    assert "--fail-on-warning --keep-going -c docs ." in command
    assert "--fail-on-warning --keep-going -c docs ." in MAKEFILE
    assert "--require-hashes -r requirements/dev.lock" in build["jobs"]["install"][0]
