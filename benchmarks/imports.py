"""``import terradask`` compared with ``import distributed``, and ``terradask --help``."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks._measure import Row, Verdict, in_turn, timed


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Time imports and the command line's help, whole processes."""
    command = str(Path(sys.executable).with_name("terradask"))
    rows = in_turn(
        runs,
        **{
            "python -c 'import distributed'": lambda: timed(
                [sys.executable, "-c", "import distributed"]
            ),
            "python -c 'import terradask'": lambda: timed(
                [sys.executable, "-c", "import terradask"]
            ),
            "python -c 'from terradask import Cluster'": lambda: timed(
                [sys.executable, "-c", "from terradask import Cluster"]
            ),
            "terradask --help": lambda: timed([command, "--help"]),
        },
    )
    distributed, plain, cluster, help_ = rows.values()
    return list(rows.values()), [
        Verdict(
            "import terradask / import distributed", plain.median / distributed.median, 1.3, " x"
        ),
        Verdict(
            "from terradask import Cluster / import distributed",
            cluster.median / distributed.median,
            1.3,
            " x",
        ),
        Verdict("terradask --help", help_.median, 0.5, " s"),
    ]
