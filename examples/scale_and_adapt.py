"""More workers, fewer workers, as many as the work needs."""

import os
import time

from terradask import Cluster


def work(seconds: float) -> int:
    """Take some time, and return which process it was."""
    time.sleep(seconds)
    return os.getpid()


if __name__ == "__main__":
    with Cluster(n_workers=1) as cluster, cluster.get_client() as client:
        kept = client.submit(os.urandom, 1000)
        before = kept.result()

        cluster.scale(3)
        cluster.wait_for_workers(3)
        print("workers:", len(client.scheduler_info()["workers"]))

        # Going down moves what the leaving workers hold: no result is lost.
        cluster.scale(1)
        assert kept.result() == before

        cluster.adapt(minimum=1, maximum=3)
        processes = set(client.gather(client.map(work, [0.1] * 60, pure=False)))
        print("computed by", len(processes), "processes")
