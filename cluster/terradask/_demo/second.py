"""A second process: knows the cluster's name and nothing else, attaches, computes, leaves.

``python -m terradask._demo.second NAME SETTINGS`` prints a JSON document.
"""

from __future__ import annotations

import json
import os
import sys

from terradask import Cluster


def main(name: str, settings: str) -> None:
    """Attach, look at what the first process published, compute something, leave."""
    with Cluster(name=name, settings=settings) as cluster, cluster.get_client() as client:
        fingerprint = client.get_dataset("fingerprint").result()
        total = client.submit(sum, range(1000)).result()
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        address = cluster.scheduler_address
    print(
        json.dumps(
            {
                "process": os.getpid(),
                "scheduler": address,
                "workers": workers,
                "fingerprint": fingerprint,
                "sum": total,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
