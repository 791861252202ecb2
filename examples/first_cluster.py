"""Make a cluster, compute, have it taken away."""

from terradask import Cluster


def square(x: int) -> int:
    """Return the square of a number, computed on a worker."""
    return x * x


if __name__ == "__main__":
    with Cluster(n_workers=2, wait_for_workers=True) as cluster, cluster.get_client() as client:
        print(cluster)
        print(sum(client.gather(client.map(square, range(10)))))
