"""An environment of 500 MB (20,000 files) on 1, 10 and 50 hosts: built by uv from an index, or
fetched as the archive of an earlier run. All hosts are threads of this machine, ten at a time, so
the time of several hosts is their total.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tests.package_index import list_archive, serving
from tests.waiting import eventually

from benchmarks._measure import Row, Verdict
from terradask_host.agent.aws import Aws
from terradask_host.agent.bound_run import BoundRun
from terradask_host.agent.environment import Environment
from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.objects import ClusterObjects
from terradask_host.agent.shared_environment import MANIFEST, SharedEnvironment, Sharing
from terradask_host.config import Paths
from terradask_host.documents import EnvironmentArchive, Run, sha256_of
from terradask_host.timing import Timing
from terradask_simulator import Simulator

_FILES_EACH, _FILE_BYTES = 400, 25_000
#: How many hosts' files there is room for, and where, if that is there.
_AT_ONCE, _MEMORY = 10, Path("/dev/shm")
_BUCKET = "terradask-benchmark"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: Packages of 10 MB; one of them is enough to count.
_PACKAGES, _FEW = 50, 1
_RUN = b"{}"


@dataclass
class _Bench:
    """Hosts of one run after another, each with a folder for its disk, and the bucket that they
    share.
    """

    folder: Path
    aws: Aws
    packages: int
    runs: int = 0
    made: int = 0

    @property
    def cluster(self) -> str:
        """Another one for each run."""
        return f"run-{self.packages}-{self.runs}"

    @property
    def objects(self) -> ClusterObjects:
        return ClusterObjects(self.aws, _BUCKET, self.cluster)

    def host(self, built: EnvironmentArchive | None = None) -> SharedEnvironment:
        self.made += 1
        lock = "".join(f"acme-{number}==1.0\n" for number in range(self.packages))
        environment = Environment(
            Paths(self.folder / f"host-{self.packages}-{self.made}"),
            _PYTHON,
            lock,
            events=EventQueue(),
            log=lambda line: None,
            deadline_seconds=600,
        )
        digests = {"run.json": sha256_of(_RUN), "software.lock": sha256_of(lock.encode())}
        bound = BoundRun(
            Run("run", "", "", "", _PYTHON, {}, 1, environment=built),
            cast(Any, None),
            {"scheduler": {"key": "a key"}, "sha256": digests},
        )
        return SharedEnvironment(
            environment,
            bound,
            self.objects,
            instance_id=f"i-{self.made}",
            timing=Timing(environment_share_seconds=600),
            sharing=Sharing(),
            note=lambda text: None,
        )

    def start(self, number: int, archive: EnvironmentArchive | None = None) -> float:
        """Start a run of this many hosts, and return how long it takes until all have the
        environment.

        Without an archive the first builds it, and the others wait for it and fetch it.
        """
        self.runs += 1
        run = f"clusters/{self.cluster}/run.json"
        self.aws.client("s3").put_object(Bucket=_BUCKET, Key=run, Body=_RUN)
        spent = 0.0
        for first in range(0, number, _AT_ONCE):
            batch = range(first, min(first + _AT_ONCE, number))
            began = time.perf_counter()
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                hosts = [self.host(archive) for _ in batch]
                whole = [
                    pool.submit(host.lead if at == 0 else host.follow)
                    for at, host in zip(batch, hosts, strict=True)
                ]
                for each in whole:
                    each.result()
            spent += time.perf_counter() - began
            self._remove(hosts)
        print(f"  {number} of {self.packages} packages: {spent:.1f}", file=sys.stderr, flush=True)
        return spent

    def archive(self) -> EnvironmentArchive:
        """Return what the last run's first host has built and sent."""

        def is_ready() -> bool:
            return bool((self.objects.read_document(MANIFEST) or {}).get("archive"))

        eventually(is_ready)
        return EnvironmentArchive.read((self.objects.read_document(MANIFEST) or {})["archive"])

    def _remove(self, hosts: list[SharedEnvironment]) -> None:
        """Remove hosts' disks."""
        if hosts[0].bound.run.environment is None and len(hosts) == 1:
            # It still sends the archive.
            self.archive()
        for host in hosts:
            shutil.rmtree(host.environment.paths.root)


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time runs of hosts, and count what they ask of the index."""
    asked: list[str] = []
    memory = _MEMORY if _MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory() as made,
        tempfile.TemporaryDirectory(dir=memory) as disks,
        Simulator.start() as sim,
        sim.applied(),
    ):
        for number in range(_PACKAGES):
            _publish(Path(made, "index"), number)
        with serving(Path(made, "index"), asked) as url:
            os.environ["UV_DEFAULT_INDEX"] = url
            aws = Aws("us-east-1")
            aws.client("s3").create_bucket(Bucket=_BUCKET)
            counts = _counted(_Bench(Path(disks), aws, _FEW), asked)
            bench = _Bench(Path(disks), aws, _PACKAGES)
            rows = _timed(bench, runs)
    return [*rows, *counts], [
        Verdict("index requests of 100 hosts over one's", counts[-1].median / counts[0].median, 1.0)
    ]


def _counted(bench: _Bench, asked: list[str]) -> list[Row]:
    rows = []
    for number in (1, 10, 50, 100):
        asked.clear()
        bench.start(number)
        name = f"{number} host{'s' if number > 1 else ''}: requests of the index"
        rows.append(Row(name, [float(len(asked))], "requests"))
    return rows


def _timed(bench: _Bench, runs: int) -> list[Row]:
    built = Row("1 host, built by uv")
    archived = Row("1 host, from the archive of an earlier run")
    for _ in range(runs):
        built.runs.append(bench.start(1))
        archive = bench.archive()
        archived.runs.append(bench.start(1, archive))
    return [
        built,
        archived,
        Row("10 hosts, the first builds it", [bench.start(10)]),
        Row("10 hosts, from the archive of an earlier run", [bench.start(10, archive)]),
        # The build is the smallest part of it.
        Row("50 hosts, the first builds it", [bench.start(50)]),
        Row("50 hosts, from the archive of an earlier run", [bench.start(50, archive)]),
    ]


def _publish(root: Path, number: int) -> None:
    """List a package of 400 modules, 10 MB, as large packages have them."""
    name, about = f"acme_{number}", f"acme_{number}-1.0.dist-info"
    wheel = root / "files" / f"{name}-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    words = random.Random(number).choices(["import", "return", "value", "self", "None"], k=5_000)
    text = "# " + " ".join(words)[: _FILE_BYTES - 2]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in range(_FILES_EACH):
            archive.writestr(f"{name}/module_{module}.py", text)
        for file, content in (
            ("METADATA", f"Metadata-Version: 2.1\nName: acme-{number}\nVersion: 1.0\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("RECORD", ""),
        ):
            archive.writestr(f"{about}/{file}", content)
    list_archive(root, f"acme-{number}", wheel)
