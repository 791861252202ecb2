"""``terradask software scan``'s reading and rules for an environment of 150 packages, compared with
uv's list of the same folder. Whole processes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks._measure import Row, Verdict, in_turn, timed
from terradask_host.agent.environment import find_uv

_PACKAGES = 150
_SCAN = """
import importlib.metadata, sys
from packaging.markers import default_environment
from terradask._software.environment import read_installed
from terradask._software.hosts import host_markers
from terradask._software.scan import scan
found = scan(
    read_installed(importlib.metadata.distributions(path=[sys.argv[1]])), python="3.12",
    architecture="x86_64", here=default_environment(), hosts=host_markers("x86_64"),
)
assert found.counts["taken"] == 150, found.counts
"""


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time the scan and uv's list."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(_PACKAGES):
            _install(Path(folder), number)
        rows = in_turn(
            runs,
            **{
                "scan of 150 packages": lambda: timed([sys.executable, "-c", _SCAN, folder]),
                "uv pip list": lambda: timed([find_uv(), "pip", "list", "--path", folder]),
            },
        )
    return list(rows.values()), [
        Verdict("scan of 150 packages", rows["scan of 150 packages"].median, 2.0, " s")
    ]


def _install(folder: Path, number: int) -> None:
    """Install a package with eight requirements, as many as a usual one has."""
    about = folder / f"acme_{number}-1.0.dist-info"
    about.mkdir()
    needs = "".join(
        f"Requires-Dist: acme-{other}>=0.5; python_version >= '3.9' or sys_platform == 'darwin'\n"
        for other in range(max(0, number - 8), number)
    )
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: acme-{number}\nVersion: 1.0\n{needs}\n{'A word. ' * 500}\n"
    )
    (about / "RECORD").write_text("")
    (about / "WHEEL").write_text("Wheel-Version: 1.0\nTag: py3-none-any\n")
