"""The client whose calls go through a line, or don't: for each line of its input it starts,
attaches to, or closes the cluster ``far``, and prints when it began and when that was done.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

# What the first start of a process imports isn't what is measured.
import terradask._clusters.start  # noqa: F401
from terradask import Cluster

NAME = "far"


def main() -> None:
    """Do what standard input says."""
    clusters: list[Cluster] = []
    steps: dict[str, Callable[[], object]] = {
        "start": lambda: clusters.append(Cluster(NAME, n_workers=0)),
        "attach": lambda: clusters.append(Cluster.from_name(NAME)),
        "close": lambda: clusters.pop().close(),
    }
    for line in sys.stdin:
        began = time.monotonic()
        steps[line.strip()]()
        print(json.dumps({"began": began, "done": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main()
