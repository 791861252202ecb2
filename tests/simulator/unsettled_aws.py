"""AWS as it is in its worst minutes: whatever its services answer now and then, all together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from terradask_simulator import Simulator


@contextmanager
def unsettled(sim: Simulator, draws: random.Random) -> Iterator[None]:
    """Turn on every switch for what AWS doesn't know yet, hasn't finished or refuses for a moment.

    Times are short, so that lives take little longer; shares are far above AWS's. Objects aren't
    hidden: Terraform takes a hidden lock for an error.
    """

    def seed() -> int:
        return draws.randrange(1000)

    with ExitStack() as on:
        for switched in (
            sim.contend_groups(0.2, seed=seed()),
            sim.delay_identities(4.0, seed=seed()),
            sim.delay_launches(0.1, seed=seed()),
            sim.hide_instances(2.0, seed=seed()),
            sim.hide_resources(3.0, seed=seed()),
            sim.linger_secrets(5.0),
            sim.linger_terminating(4.0),
            sim.unsettle_buckets(0.2, seconds=10.0, seed=seed()),
        ):
            on.enter_context(switched)
        yield
