"""An Airflow DAG: a task makes the cluster, one computes on it by name, one ends it in any case."""

from airflow.sdk import dag, task


@dag(schedule=None)
def squares() -> None:
    """Compute the sum of squares."""

    @task
    def start(name: str) -> str:
        from terradask import Cluster

        # It ends by itself if nothing uses it, whatever becomes of Airflow.
        with Cluster(
            name, n_workers=2, shutdown_on_close=False, no_client_timeout="10 minutes"
        ) as cluster:
            return cluster.name

    @task
    def compute(name: str, numbers: list[int]) -> int:
        from terradask import Cluster

        with Cluster.from_name(name) as cluster, cluster.get_client() as client:
            return int(client.submit(sum, client.map(lambda number: number**2, numbers)).result())

    @task(trigger_rule="all_done")
    def end(name: str) -> None:
        from terradask import Workspace

        Workspace.load().destroy_cluster(name)

    name = "nightly-squares"
    # By its name, and not by what `start` returns: that may have failed half-way.
    compute(start(name), [1, 2, 3]) >> end(name)


made = squares()

if __name__ == "__main__":
    run = made.test()
    print("state:", run.state)
    print("sum of squares:", run.get_task_instance("compute").xcom_pull(task_ids="compute"))
