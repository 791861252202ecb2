"""The time from `cluster.sync_software()` after an edit of an editable package until all workers
have imported it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.package_index import serving
from tests.simulator.own_index import list_installed, versions_for_hosts
from tests.source_packages import install, source_folder

from benchmarks._measure import Row, Verdict
from terradask import Cluster
from terradask_simulator import Simulator

_SIZES = (1, 4)
_SECONDS = 120


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time edits on clusters of each size."""
    with (
        tempfile.TemporaryDirectory() as made,
        _editable(Path(made)) as module,
        _index(Path(made)) as url,
        Simulator.start(baseline=True) as sim,
        sim.applied(),
        sim.build_environments(index_url=url),
    ):
        rows = [_edited(module, size, runs) for size in _SIZES]
    slowest = max(row.median for row in rows)
    return rows, [Verdict("an edit until it is imported, the slowest", slowest, 10.0, " s")]


def _edited(module: Path, size: int, runs: int) -> Row:
    row = Row(f"{size} worker{'s' if size > 1 else ''}: an edit until it is imported")
    with (
        Cluster(
            f"edits{size}", n_workers=size, software=["acme-tools"], wait_for_workers=True
        ) as cluster,
        cluster.get_client() as client,
    ):
        for number in range(runs + 1):
            module.write_text(f"STATE = {number}\n")
            began = time.perf_counter()
            cluster.sync_software()
            client.wait_for_workers(size, timeout=_SECONDS)
            found = client.run(lambda: __import__("acme_tools").STATE)
            seconds = time.perf_counter() - began
            assert list(found.values()) == [number] * size, found
            if number:
                row.runs.append(seconds)
    return row


@contextmanager
def _editable(folder: Path) -> Iterator[Path]:
    """Install a package of one module here as editable; yield the module."""
    source, site = source_folder(folder / "sources"), folder / "site"
    install(site, "--editable", str(source))
    sys.path.insert(0, str(site))
    # The build backend is the one that is installed here.
    os.environ["UV_NO_BUILD_ISOLATION"] = "1"
    module = source / "acme_tools.py"
    module.write_text("STATE = None\n")
    try:
        yield module
    finally:
        sys.path.remove(str(site))
        del os.environ["UV_NO_BUILD_ISOLATION"]


@contextmanager
def _index(folder: Path) -> Iterator[str]:
    list_installed(folder / "index", versions_for_hosts())
    with serving(folder / "index") as url:
        yield url
