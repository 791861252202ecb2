"""Synthesis of 50 declared clusters, and the plan of one unchanged cluster, compared with Terraform
alone.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks._measure import Row, Verdict, in_turn, timed
from terradask._terraform.provider_mirror import cli_config_in_use
from terradask_simulator import Simulator

_CLUSTERS = 50
_TERRADASK = [sys.executable, "-m", "terradask"]


def _settings(most: int, changed: int = 0) -> str:
    """Return settings in which every cluster has a different limit; ``changed`` is added to one of
    them.
    """
    tables = (
        f"[clusters.c{number}]\nmax_workers = {most + number + (changed if number == 7 else 0)}\n"
        for number in range(_CLUSTERS)
    )
    return "\n".join(tables)


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Measure on one deployed network, all candidates in turn."""
    count = itertools.count(1)
    with Simulator.start(baseline=True) as simulator, tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, **simulator.environ}
        config = cli_config_in_use(environ).cli_config
        environ |= {"TF_CLI_CONFIG_FILE": str(config)} if config else {}
        file = Path(folder, "terradask.toml")

        def synth(text: str) -> float:
            file.write_text(text, encoding="utf-8")
            return timed([*_TERRADASK, "synth"], environ, folder)

        def plan() -> float:
            file.write_text(_settings(100), encoding="utf-8")
            return timed([*_TERRADASK, "plan", "c0", "--json"], environ, folder)

        # The answers for all 50 are requested once, and locked.
        synth(_settings(100))
        subprocess.run(
            [*_TERRADASK, "apply", "c0", "--yes"],
            cwd=folder,
            env=environ,
            check=True,
            capture_output=True,
        )
        rows = in_turn(
            runs,
            **{
                f"terradask synth, network and {_CLUSTERS} clusters, all changed": lambda: synth(
                    _settings(100 + 100 * next(count))
                ),
                "the same, one changed": lambda: synth(_settings(100, changed=100 * next(count))),
                "terradask plan of an unchanged cluster": plan,
                "terraform init, plan, show of the same stack": lambda: _terraform(environ),
            },
        )
        subprocess.run(
            [*_TERRADASK, "destroy", "c0", "--yes"],
            cwd=folder,
            env=environ,
            check=True,
            capture_output=True,
        )
    every, _, ours, bare = (row.median for row in rows.values())
    return list(rows.values()), [
        Verdict(f"synthesis of {_CLUSTERS} declared clusters", every, 10, " s"),
        Verdict(
            "plan of an unchanged cluster, less 1.2 x bare Terraform", ours - 1.2 * bare, 2, " s"
        ),
    ]


def _terraform(environ: Mapping[str, str]) -> float:
    """Init, plan and show a copy of the stack's folder as synthesis left it; return the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cdk.tf.json", ".terraform.lock.hcl"):
            shutil.copy(Path(environ["TERRADASK_STATE_DIR"], "cdktf.out/stacks/c0", name), folder)
        env = {**environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
        steps = (
            ["init", "-input=false", "-lockfile=readonly"],
            ["plan", "-input=false", "-out=plan"],
            ["show", "-json", "plan"],
        )
        return sum(timed(["terraform", *step], env, folder) for step in steps)
