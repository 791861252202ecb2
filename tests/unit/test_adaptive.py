"""Adaptive scaling that is stopped while it decides changes nothing more."""

import asyncio
from types import SimpleNamespace

import pytest
from distributed.deploy.adaptive import Adaptive

from terradask._dask.adaptive import adaptive_for


class Own(Adaptive):
    """Somebody's own way to shrink, which takes a while."""

    async def scale_down(self, workers):
        self.cluster.orders.append(("own", list(workers)))


def told(adaptive, wanted, *, stops):
    """What the cluster is told by one decision; stopped, when that is so, while the scheduler is
    asked.
    """
    orders = []

    async def main():
        async def target(**_):
            if stops:
                deciding.stop()
            return wanted

        async def close(**_):
            return ["i-2"]

        async def retired(**_):
            orders.append(("retired",))

        async def scale_down(workers):
            orders.append(("down", list(workers)))

        hosts = {"i-1", "i-2"}
        cluster = SimpleNamespace(
            plan=hosts,
            requested=hosts,
            observed=hosts,
            orders=orders,
            scale=lambda n: orders.append(("up", n)),
            scale_down=scale_down,
            scheduler_comm=SimpleNamespace(
                adaptive_target=target, workers_to_close=close, retire_workers=retired
            ),
        )
        deciding = adaptive_for(adaptive)(cluster, interval=0, minimum=0, maximum=9, wait_count=1)
        deciding.state = "running"
        deciding.periodic_callback = SimpleNamespace(stop=lambda: None)
        await deciding.adapt()

    asyncio.run(main())
    return orders


@pytest.mark.parametrize(
    ("adaptive", "wanted", "orders"),
    [
        (Adaptive, 5, [("up", 5)]),
        (Adaptive, 1, [("down", ["i-2"])]),
        (Own, 5, [("up", 5)]),
        (Own, 1, [("own", ["i-2"])]),
    ],
)
def test_what_was_being_decided_is_dropped(adaptive, wanted, orders):
    assert told(adaptive, wanted, stops=False) == orders
    assert told(adaptive, wanted, stops=True) == []


def test_the_class_keeps_its_name():
    assert adaptive_for(Own).__name__ == "Own"
