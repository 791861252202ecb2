"""A Dagster asset that computes on a cluster: made for the run, or one that runs already."""

import sys

import dagster as dg

from terradask import Cluster


class DaskCluster(dg.ConfigurableResource):
    """A cluster for one run; or, by name, one that runs already."""

    n_workers: int = 2
    attach_to: str | None = None

    def open(self) -> Cluster:
        """Return the cluster. Closing it destroys what was made here, and nothing else."""
        if self.attach_to is not None:
            return Cluster.from_name(self.attach_to)
        return Cluster(n_workers=self.n_workers, spot_policy="spot_with_fallback")


@dg.asset
def squares(dask: DaskCluster) -> int:
    """Return the sum of squares."""
    with dask.open() as cluster, cluster.get_client() as client:
        return int(client.submit(sum, client.map(lambda number: number**2, [1, 2, 3])).result())


if __name__ == "__main__":
    name = sys.argv[1] if sys.argv[1:] else None
    result = dg.materialize([squares], resources={"dask": DaskCluster(attach_to=name)})
    print("sum of squares:", result.output_for_node("squares"))
