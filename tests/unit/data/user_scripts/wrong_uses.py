"""What a user gets wrong: both type checkers find an error in each line that ends in `# wrong`."""

import terradask
from terradask import Cluster, Job, Workspace, offers


def clusters(cluster: Cluster) -> None:
    Cluster(worker_cpus=4)  # wrong
    Cluster(worker_cpu="four")  # wrong
    Cluster(worker_memory=1.5)  # wrong
    Cluster(n_workers="4")  # wrong
    Cluster(spot_policy="cheap")  # wrong
    Cluster(connect="vpn")  # wrong
    Cluster(package_sync_fail_on="never")  # wrong
    Cluster(idle_timeout=True)
    Cluster(idle_timeout=["1 hour"])  # wrong
    Cluster(tags=["team"])  # wrong
    Cluster(custom_widget="bar")  # wrong
    Cluster("etl", "gpu-small")  # wrong
    Cluster.from_name("etl", connect="vpn")  # wrong
    Cluster.from_name("etl", n_worker=2)  # wrong
    cluster.scale("ten")  # wrong
    cluster.scale(2, groups="gpu")  # wrong
    cluster.adapt(minimun=1)  # wrong
    cluster.adapt(minimum="one")  # wrong
    cluster.wait_for_workers("all")  # wrong
    cluster.scale_down(7)  # wrong
    cluster.send_private_envs(["TOKEN"])  # wrong
    cluster.logs(levle="error")  # wrong
    cluster.rescale(3)  # wrong
    cluster.name.uper()  # wrong


def jobs(cluster: Cluster, job: Job) -> None:
    cluster.run_command(7)  # wrong
    cluster.run_command(["ls"], retry=3)  # wrong
    cluster.run_command(["ls"], retries="3")  # wrong
    cluster.run_command(["ls"]).exitcode()  # wrong
    job.wait(timeout="long")  # wrong


async def in_an_event_loop() -> None:
    async with Cluster(asynchronous="yes") as cluster:  # wrong
        await cluster.zone  # wrong


@terradask.function(memories="64 GiB")  # wrong
def first(number: int) -> str:
    return str(number)


@terradask.function(spot_policy="cheap")  # wrong
def second(number: int) -> str:
    return str(number)


@terradask.function(attach=True)  # wrong
def third(number: int) -> str:
    return str(number)


@terradask.function(memory="64 GiB")
def process(number: int) -> str:
    return str(number)


def functions() -> None:
    process("one")  # wrong
    process.submit(1, 2)  # wrong
    process.map([1], errors="ignore")  # wrong
    process(1) + 1  # wrong


def workspaces(workspace: Workspace) -> None:
    Workspace.load(7)  # wrong
    workspace.plan_cluster(name=3)  # wrong
    workspace.apply("network")  # wrong
    workspace.destroy("etl")  # wrong
    offers()["gpu"].cost()  # wrong
    terradask.find_offers()  # wrong
    terradask.errors.NoSuch()  # wrong
