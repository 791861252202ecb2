"""An environment of 500 MB on hosts: built by uv from an index, and from the archive of an earlier
run; and how often the index is asked for a run of ten hosts. The host program's own parts, on this
machine's disk, with S3 by the embedded AWS and an index on loopback.
"""

from __future__ import annotations

import os
import random
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

from benchmarks._measure import Row, Verdict, in_turn
from terradask_host.agent.aws import Aws
from terradask_host.agent.bound_run import BoundRun
from terradask_host.agent.environment import Environment
from terradask_host.agent.event_queue import EventQueue
from terradask_host.agent.objects import ClusterObjects
from terradask_host.agent.shared_environment import MANIFEST, SharedEnvironment
from terradask_host.config import Paths
from terradask_host.documents import EnvironmentArchive, Run, sha256_of
from terradask_host.timing import Timing
from terradask_simulator import Simulator

_PACKAGES, _FILES_EACH, _FILE_BYTES, _HOSTS = 50, 400, 25_000, 10
_BUCKET = "terradask-benchmark"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_LOCK = "".join(f"acme-{number}==1.0\n" for number in range(_PACKAGES))
_RUN = b"{}"


@dataclass
class _Bench:
    """Hosts, each with a folder for its disk, and the bucket that they share."""

    folder: Path
    objects: ClusterObjects
    made: int = 0

    def host(self, built: EnvironmentArchive | None = None) -> SharedEnvironment:
        self.made += 1
        environment = Environment(
            Paths(self.folder / f"host-{self.made}"),
            _PYTHON,
            _LOCK,
            events=EventQueue(),
            log=lambda line: None,
            deadline_seconds=600,
        )
        digests = {"run.json": sha256_of(_RUN), "software.lock": sha256_of(_LOCK.encode())}
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
            timing=Timing(),
            note=lambda text: None,
        )

    def build(self) -> float:
        """Build one with an empty cache, as the first host of a first run does."""
        return self._timed(self.host().environment.build)

    def lead(self) -> EnvironmentArchive:
        """Build it and send it, as a scheduler's host does; return the archive."""
        self.host().lead()

        def is_ready() -> bool:
            return bool((self.objects.read_document(MANIFEST) or {}).get("archive"))

        eventually(is_ready)
        document = self.objects.read_document(MANIFEST) or {}
        return EnvironmentArchive.read(document["archive"])

    def fetch(self, archive: EnvironmentArchive) -> float:
        """Fetch it, as each host of a later run does."""
        return self._timed(self.host(archive).follow)

    def _timed(self, make: Any) -> float:
        # Hosts' files stay until the end: a file system makes files slower soon after it has
        # removed many.
        began = time.perf_counter()
        make()
        return time.perf_counter() - began


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time one host's build and fetch, and count what ten hosts ask of the index."""
    asked: list[str] = []
    with tempfile.TemporaryDirectory() as made, Simulator.start() as sim, sim.applied():
        for number in range(_PACKAGES):
            _publish(Path(made, "index"), number)
        with serving(Path(made, "index"), asked) as url:
            os.environ["UV_DEFAULT_INDEX"] = url
            aws = Aws("us-east-1")
            aws.client("s3").create_bucket(Bucket=_BUCKET)
            bench = _Bench(Path(made), ClusterObjects(aws, _BUCKET, "etl"))
            aws.client("s3").put_object(Bucket=_BUCKET, Key="clusters/etl/run.json", Body=_RUN)
            asked.clear()
            archive = bench.lead()
            of_one = len(asked)
            with ThreadPoolExecutor(_HOSTS - 1) as pool:
                list(pool.map(lambda _: bench.fetch(archive), range(_HOSTS - 1)))
            counts = [
                Row("index requests, one host", [float(of_one)], "requests"),
                Row("index requests, ten hosts", [float(len(asked))], "requests"),
            ]
            rows = in_turn(
                runs,
                **{"built by uv": bench.build, "from the archive": lambda: bench.fetch(archive)},
            )
    ratio = counts[1].median / counts[0].median
    return [*rows.values(), *counts], [Verdict("requests of ten hosts over one's", ratio, 1.0)]


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
