"""What is installed and run is what was locked: floors, hashes, checksums, and nothing that goes
past them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from .programs import program

ROOT = Path(__file__).parents[2]

#: The oldest version without a known hole that concerns us: package -> version, advisory.
#: https://github.com/dask/distributed/security/advisories/GHSA-c336-7962-wfj2 (CVE-2026-23528),
#: mended in 2026.1.1.
FLOORS = {"distributed": Version("2026.1.1")}
LOCKS = (
    "requirements/dev.lock",
    "requirements/demo.lock",
    "requirements/checkov.lock",
    "requirements/orchestrators.lock",
    "requirements/airflow.lock",
    "requirements/terraform.lock",
    "requirements/lowest.lock",
    "requirements/audit.lock",
    "requirements/rattler-build.lock",
    "host/terradask_host/boot.lock",
)

#: What would take another provider than the one whose checksums are kept.
PAST_CHECKSUMS = re.compile(
    r"(?:init|providers)\b[^\n]*-upgrade\b|upgrade=FLAG|providers[\"', "
    r"]+lock|plugin_cache_may_break_dependency_lock_file"
)
#: A script that is piped from the network into a shell; a check of certificates that is switched
#: off.
UNSEEN = re.compile(
    r"(?:curl|wget)[^\n|]*\|\s*(?:sudo\s+)?(?:ba|z)?sh\b|curl[^\n]* "
    r"(?:-k|--insecure)\b|verify=False|--trusted-host|--no-check-certificate"
)


def sources() -> dict[str, str]:
    """Return the files that run or tell others what to run: code, scripts, pipelines, examples and
    documentation.
    """
    kinds = {".py", ".sh", ".yml", ".yaml", ".toml", ".json", ".md", ".service", ".j2", ""}
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    names = listed or [
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()
    ]
    wanted = [
        name
        for name in names
        if Path(name).suffix in kinds and not name.startswith(("tests/", "LICENSE"))
    ]
    return {name: (ROOT / name).read_text(errors="replace") for name in wanted}


def test_floors_are_in_the_requirements_and_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {found.name: found for found in map(Requirement, project["dependencies"])}
    locked = dict(
        re.findall(
            r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements/dev.lock").read_text(), re.MULTILINE
        )
    )
    for name, floor in FLOORS.items():
        assert floor in required[name].specifier
        assert not list(
            required[name].specifier.filter(
                [Version("2026.1.0"), Version("2025.12.0"), Version("2024.8.2")]
            )
        )
        assert Version(locked[name]) >= floor


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text()
    blocks = re.split(
        r"^(?=[A-Za-z0-9])", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE
    )
    packages = [block for block in blocks if "==" in block]
    assert packages
    assert [
        block.splitlines()[0]
        for block in packages
        if not re.search(r"--hash=sha256:[0-9a-f]{64}", block)
    ] == []


def test_locks_are_installed_by_hash_alone() -> None:
    """Wherever something is installed from a lock, hashes are demanded."""
    text = (ROOT / "Makefile").read_text() + (
        ROOT / "modules/terradask_modules/templates/boot.sh"
    ).read_text()
    installs = re.findall(r"^.*(?<!read )(?:-r|--requirement) \S+.*$", text, re.MULTILINE)
    assert len([line for line in installs if "audit.py" not in line]) >= 5
    assert [line for line in installs if "--require-hashes" not in line] == []


def test_nothing_goes_past_the_providers_checksums() -> None:
    found = sources()
    assert len(found) > 300
    assert [name for name, text in found.items() if PAST_CHECKSUMS.search(text)] == []
    assert 'lockfile="readonly"' in found["cluster/terradask/_terraform/terraform.py"]
    lock = (ROOT / ".terraform.lock.hcl").read_text()
    assert re.search(r'version\s*=\s*"5\.100\.0"', lock)
    assert len(re.findall(r'"zh:[0-9a-f]{64}"', lock)) >= 10
    assert len(re.findall(r'"h1:[A-Za-z0-9+/]{43}="', lock)) >= 1


def test_the_check_would_find_it() -> None:
    assert PAST_CHECKSUMS.search("terraform init -input=false -upgrade")
    assert PAST_CHECKSUMS.search('self._stream("init", upgrade=FLAG)')
    assert not PAST_CHECKSUMS.search("pip install --upgrade terradask")


def test_nothing_is_fetched_and_run_unseen() -> None:
    """No script is piped from the network into a shell, no check of certificates is
    switched off.
    """
    assert [name for name, text in sources().items() if UNSEEN.search(text)] == []


# ---- the audit -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    return program("audit")


def answer(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


CLEAN = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found and could not be audited"}
HOLED = {
    "name": "b",
    "version": "2",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.1"], "description": "x"}],
}


@pytest.mark.parametrize(
    ("output", "trouble", "exit_code", "says"),
    [
        (answer(CLEAN, CLEAN), "", 0, "2 packages, 0 known vulnerabilities"),
        (answer(CLEAN, HOLED), "", 1, "b 2: PYSEC-1, mended in 2.1"),
        (answer(CLEAN, UNKNOWN), "", 0, "2 packages, 1 of them unknown, 0 known"),
        # pip-audit calls that no known vulnerabilities.
        (
            answer(UNKNOWN, UNKNOWN),
            "No known vulnerabilities found",
            0,
            "SKIPPED: advisories can't be had here: none of 2 packages",
        ),
        (
            "",
            "x\nConnectionError: no route",
            0,
            "SKIPPED: advisories can't be had here: ConnectionError: no route",
        ),
        ("", "", 0, "SKIPPED"),
    ],
)
def test_what_an_audit_comes_to(
    audit: ModuleType, output: str, trouble: str, exit_code: int, says: str
) -> None:
    verdict = audit.judge("dev.lock", output, trouble)
    assert verdict.exit_code == exit_code
    assert says in verdict.text


def test_an_accepted_advisory_stops_nothing(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(audit.ACCEPTED, "CVE-1", "only with a proxy")
    assert audit.judge("dev.lock", answer(HOLED), "").exit_code == 0


def test_the_audit_says_what_it_finds(
    audit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!{sys.executable}\nprint({answer(HOLED)!r})\nraise SystemExit(1)\n")
    program.chmod(0o755)
    assert audit.main(str(program), "dev.lock", "boot.lock") == 1
    assert capsys.readouterr().out.count("PYSEC-1") == 2
    assert audit.main(str(tmp_path / "none"), "dev.lock") == 0
    assert "SKIPPED" in capsys.readouterr().out
