"""A deployed cluster that is started, found again by name, and stopped."""

from terradask import Cluster, Workspace

if __name__ == "__main__":
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster("shared"))
    print("deployed:", workspace.deployment("shared").status().state)

    # Whoever knows the name attaches; the first one starts it. Leaving an attached cluster doesn't
    # end it.
    with (
        Cluster("shared", n_workers=1, shutdown_on_close=False) as cluster,
        cluster.get_client() as client,
    ):
        client.publish_dataset(answer=client.submit(sum, [20, 22]))
    with Cluster("shared") as cluster, cluster.get_client() as client:
        print("the first one left", client.get_dataset("answer").result())

    workspace.deployment("shared").stop(wait_seconds=60)
    print("stopped:", workspace.deployment("shared").status().state)
    workspace.destroy_cluster("shared")
