"""Synthesis of the network and one cluster, compared with importing the provider package in the
ordinary way. *Apart* is from the light client, whose CDKTF is in an environment of its own, made at
the first plan.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks._measure import NotMeasured, Row, Verdict, in_turn, seconds_of
from benchmarks.install import build_wheels
from terradask_host.agent.uv import find_uv

_CODE = """
import json, sys, tempfile, time
from pathlib import Path
started = time.perf_counter()
if {ordinary}:
    import cdktf_cdktf_provider_aws
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize
zones = {{f"us-east-1{{zone}}": slot for slot, zone in enumerate("abcdef")}}
types = ["m6i.xlarge"]
lock = LockFile(
    network=NetworkLock(
        account="123456789012", zones=zones, image_ids={{"x86_64": "ami-0123456789abcdef0"}}
    ),
    clusters={{
        "etl": ClusterLock(
            account="123456789012",
            zone="us-east-1a",
            scheduler_instance_types=types,
            worker_instance_types=types,
        )
    }},
)
cache = Path({cache!r}) if {cache!r} else None
other = None
if {apart}:
    from terradask._synthesis.framework_environment import FrameworkEnvironment
    other = FrameworkEnvironment.here().other_python()
    assert other is not None
with tempfile.TemporaryDirectory() as folder:
    clusters = {{"etl": ClusterSettings()}}
    synthesize(
        Settings(), lock, out_dir=Path(folder), clusters=clusters, cache_dir=cache,
        other_python=other,
    )
    print(json.dumps(time.perf_counter() - started), flush=True)
"""


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time synthesis with terradask's import of the bindings, with the ordinary one, and from the
    cache; and the same apart.
    """
    with tempfile.TemporaryDirectory() as made:
        cache, home = Path(made, "cache"), Path(made, "home")
        light = _light_client(Path(made))
        apart_environ = {
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "UV_CACHE_DIR": _uv("cache", "dir").strip(),
            "PATH": os.pathsep.join([str(Path(find_uv()).parent), os.environ["PATH"]]),
        }

        def run(*, ordinary: bool = False, cached: bool = False) -> float:
            code = _CODE.format(ordinary=ordinary, cache=str(cache) if cached else "", apart=False)
            return seconds_of(code, dict(os.environ))

        def apart(*, first: bool = False, cached: bool = False) -> float:
            if first:
                shutil.rmtree(home, ignore_errors=True)
                home.mkdir()
            found = str(home / "stacks") if cached else ""
            code = _CODE.format(ordinary=False, cache=found, apart=True)
            if cached and not Path(found).is_dir():
                seconds_of(code, apart_environ, python=light)
            return seconds_of(code, apart_environ, python=light)

        rows = in_turn(
            runs,
            **{
                "synthesis of network and one cluster": run,
                "the same, provider package imported the ordinary way": lambda: run(ordinary=True),
                "the same, synthesised before": lambda: run(cached=True),
                "apart, the first time": lambda: apart(first=True),
                "apart": apart,
                "apart, synthesised before": lambda: apart(cached=True),
            },
        )
    ours, ordinary, _, _, other, _ = (row.median for row in rows.values())
    return list(rows.values()), [
        Verdict("synthesis / synthesis with the ordinary import", ours / ordinary, 0.3, " x"),
        Verdict("apart / synthesis in this process", other / ours, 2, " x"),
    ]


def _light_client(folder: Path) -> str:
    """Make an environment with the light client, and return its Python."""
    python = str(folder / "light/bin/python")
    _uv("venv", "--quiet", str(folder / "light"))
    links = f"--find-links={build_wheels(folder)}"
    _uv("pip", "install", "--quiet", f"--python={python}", links, "terradask")
    return python


def _uv(*arguments: str) -> str:
    done = subprocess.run([find_uv(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMeasured(done.stderr.strip().splitlines()[-1])
    return done.stdout
