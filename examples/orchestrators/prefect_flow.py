"""A Prefect flow whose tasks run on a cluster: made for the flow, or one that runs already."""

import sys

from prefect import flow, task
from prefect_dask import DaskTaskRunner

MADE_FOR_THE_FLOW = DaskTaskRunner(
    cluster_class="terradask.Cluster",
    cluster_kwargs={"n_workers": 2, "spot_policy": "spot_with_fallback"},
)


def running(name: str) -> DaskTaskRunner:
    """Return a runner on a cluster that runs, and goes on afterwards."""
    return DaskTaskRunner(
        cluster_class="terradask.Cluster", cluster_kwargs={"name": name, "attach": True}
    )


@task
def square(number: int) -> int:
    """Return the square of a number."""
    return number * number


@flow(task_runner=MADE_FOR_THE_FLOW)
def squares(numbers: list[int]) -> int:
    """Return the sum of squares."""
    return sum(future.result() for future in square.map(numbers))


if __name__ == "__main__":
    chosen = squares.with_options(task_runner=running(sys.argv[1])) if sys.argv[1:] else squares
    print("sum of squares:", chosen([1, 2, 3]))
