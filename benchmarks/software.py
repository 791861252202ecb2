"""Scanning an environment of 150 packages and resolving it for hosts, compared with `uv pip
compile` of the same list, with a warm cache.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks._measure import Row, Verdict, in_turn, timed
from terradask_host.agent.uv import find_uv

_PACKAGES = 150
_READ = """
import importlib.metadata, os, sys
found = list(importlib.metadata.distributions(path=[sys.argv[1]]))
importlib.metadata.distributions = lambda: found
"""
_SCAN = f"""{_READ}
from terradask._software.environment import scan_environment
assert scan_environment("x86_64", []).counts["taken"] == {_PACKAGES}
"""
_LOCK = f"""{_READ}
from terradask._software.package_sync import PackageSync, lock_environment
assert len(lock_environment(PackageSync(), "x86_64", os.environ).packages) == {_PACKAGES}
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time scan, scan with resolution, and uv alone."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(_PACKAGES):
            _install(folder, number)
        pins = folder / "pins.txt"
        pins.write_text("".join(f"acme-{number}==1.0\n" for number in range(_PACKAGES)))
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=made))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environ = {
            **os.environ,
            "UV_DEFAULT_INDEX": f"http://127.0.0.1:{server.server_port}/simple",
            "UV_CACHE_DIR": str(folder / "cache"),
        }
        site = str(folder / "site")
        uv = [find_uv(), "pip", "compile", "--generate-hashes", "--quiet", str(pins)]
        try:
            rows = in_turn(
                runs,
                **{
                    "scan": lambda: timed([sys.executable, "-c", _SCAN, site]),
                    "scan and resolve": lambda: timed(
                        [sys.executable, "-c", _LOCK, site], env=environ
                    ),
                    "uv pip compile": lambda: timed(uv, env=environ),
                },
            )
        finally:
            server.shutdown()
            server.server_close()
    return list(rows.values()), [
        Verdict("scan and resolve 150 packages", rows["scan and resolve"].median, 2.0, " s")
    ]


def _install(folder: Path, number: int) -> None:
    """Install a package with eight requirements, as many as a usual one has, and publish it."""
    name = f"acme_{number}-1.0"
    about = folder / "site" / f"{name}.dist-info"
    about.mkdir(parents=True)
    needs = "".join(
        f"Requires-Dist: acme-{other}>=0.5; python_version >= '3.9' or sys_platform == 'darwin'\n"
        for other in range(max(0, number - 8), number)
    )
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: acme-{number}\nVersion: 1.0\n{needs}\n"
        + "A word. " * 500,
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    page = folder / "simple" / f"acme-{number}"
    page.mkdir(parents=True)
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(page / wheel, "w") as archive:
        for file, text in files.items():
            (about / file).write_text(text)
            archive.writestr(f"{name}.dist-info/{file}", text)
    (page / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel}">{wheel}</a>')
