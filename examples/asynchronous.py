"""The same inside an event loop."""

import asyncio

from distributed import Client

from terradask import Cluster


async def main() -> None:
    """Make a cluster, compute, have it taken away."""
    async with (
        Cluster(n_workers=1, asynchronous=True) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        print(await client.submit(sum, [1, 2, 3]))


if __name__ == "__main__":
    asyncio.run(main())
