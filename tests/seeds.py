"""Where a fault strikes is drawn, from a seed that is printed: TERRADASK_SEED repeats a run."""

from __future__ import annotations

import os
import random

# Taken away: terradask would look for a setting of this name.
_GIVEN = os.environ.pop("TERRADASK_SEED", None)


def drawn(what: str) -> random.Random:
    """Return what a test draws from; what it prints, pytest shows when the test fails."""
    seed = _GIVEN or str(random.SystemRandom().randrange(10**6))
    print(f"{what}: TERRADASK_SEED={seed}")
    return random.Random(f"{what} {seed}")
