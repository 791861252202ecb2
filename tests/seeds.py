"""Where a fault strikes is drawn, from a seed that is printed: TERRADASK_SEED sets another.

Ordinary runs draw the same each time, so that they fail for a change alone; `make soak` draws anew.
"""

from __future__ import annotations

import os
import random

# Taken away: terradask would look for a setting of this name.
_SEED = os.environ.pop("TERRADASK_SEED", "1")


def drawn(what: str) -> random.Random:
    """Return what a test draws from; what it prints, pytest shows when the test fails."""
    print(f"{what}: TERRADASK_SEED={_SEED}")
    return random.Random(f"{what} {_SEED}")
