"""Asks pip-audit whether locked packages have known vulnerabilities; says so where advisories can't
be had.

``python requirements/audit.py PIP_AUDIT LOCK...`` ends with 1 for a vulnerability that isn't
accepted below, else with 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

#: Advisories that don't concern us: id -> why. Each is looked at again when it is no longer
#: reported.
ACCEPTED: dict[str, str] = {}

_SECONDS = 300


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    text: str
    exit_code: int


def judge(lock: str, output: str, trouble: str) -> Verdict:
    """Read what pip-audit says of a lock.

    Parameters
    ----------
    lock
        Its path.
    output
        Its JSON; nothing where it failed.
    trouble
        What it wrote beside that.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (trouble.strip().splitlines() or ["no answer"])[-1]
        return Verdict(f"audit: {lock}: SKIPPED: advisories can't be had here: {last[:200]}", 0)
    looked_up = [package for package in packages if "vulns" in package]
    if not looked_up:
        return Verdict(
            (
                f"audit: {lock}: SKIPPED: advisories can't be had here: none of {len(packages)} "
                "packages was found"
            ),
            0,
        )
    found = [
        (
            f"  {package['name']} {package['version']}: {one['id']}, mended in "
            f"{', '.join(one['fix_versions']) or 'no version'}"
        )
        for package in looked_up
        for one in package["vulns"]
        if not ACCEPTED.keys() & {one["id"], *one.get("aliases", ())}
    ]
    unknown = (
        f", {len(packages) - len(looked_up)} of them unknown"
        if len(looked_up) < len(packages)
        else ""
    )
    text = f"audit: {lock}: {len(packages)} packages{unknown}, {len(found)} known vulnerabilities"
    return Verdict("\n".join([text, *found]), 1 if found else 0)


def main(pip_audit: str, *locks: str) -> int:
    """Audit each lock."""
    worst = 0
    for lock in locks:
        # Nothing is resolved or installed: the lock has everything.
        command = [
            pip_audit,
            "--no-deps",
            "--disable-pip",
            "--progress-spinner",
            "off",
            "--format",
            "json",
            "--requirement",
            lock,
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            verdict = judge(lock, done.stdout, done.stderr)
        except (OSError, subprocess.TimeoutExpired) as error:
            verdict = judge(lock, "", str(error))
        sys.stdout.write(f"{verdict.text}\n")
        worst = max(worst, verdict.exit_code)
    return worst


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
