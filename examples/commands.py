"""Run a command on a cluster's host, and one for each of many inputs."""

from __future__ import annotations

from terradask import Cluster


def main() -> None:
    """Run commands, and show what became of them."""
    with Cluster(n_workers=2, wait_for_workers=True) as cluster:
        job = cluster.run_command(["python", "-c", "print(6 * 7)"])
        print("exit code", job.wait(), "and it wrote", job.logs(), end="")

        # {} stands for the input. The third one fails, twice.
        script = "import sys; sys.exit('{}' == 'c')"
        batch = cluster.map_commands(["python", "-c", script], ["a", "b", "c"], retries=1)
        print("the worst exit code:", batch.wait())
        for task in batch.tasks:
            print(task.input, task.state, task.tries)


if __name__ == "__main__":
    main()
