"""What a user writes: both type checkers pass it in strict mode. It is checked, and never run."""

import asyncio
import datetime
from pathlib import Path
from typing import assert_type

from distributed import Client, Future

import terradask
from terradask import (
    Cluster,
    Deployment,
    Function,
    Job,
    JobRecord,
    LiveView,
    Offer,
    Offers,
    Plan,
    Workspace,
    list_instance_types,
    offers,
    set_backend_options,
)
from terradask.cost import CostEstimate, to_text
from terradask.errors import ClusterNotFound, InvalidInput, TerradaskError
from terradask.policy import PolicyFinding


def clusters() -> None:
    with Cluster("nightly", worker_cpu=[2, 8], n_workers=(1, 4), settings=Path()) as cluster:
        assert_type(cluster, Cluster)
        client = cluster.get_client()
        assert_type(client, Client)
        cluster.scale(10)
        cluster.scale({"gpu": 2})
        cluster.scale(n=2, group="gpu")
        cluster.adapt(minimum=1, maximum=10, target_duration="5m").stop()
        cluster.wait_for_workers(2, timeout=60)
        cluster.scale_down(["i-0123456789abcdef0"])
        cluster.send_private_envs({"TOKEN": "secret"})
        cluster.send_credentials()
        cluster.reach(["s3://bucket/key"], timeout="10s")
        cluster.set_keepalive(60.0)
        print(cluster.name, cluster.status, cluster.dashboard_link, cluster.shared_dashboard)
        print(cluster.logs(since="1 h", pattern="error"), cluster.events(), cluster.report())
        assert_type(cluster.name, str)
        assert_type(cluster.observed, set[str])
    Cluster(
        offer="gpu-small",
        worker_memory=("16 GiB", "32 GiB"),
        spot_policy="spot_with_fallback",
        connect="ssm",
        idle_timeout=datetime.timedelta(hours=1),
        max_lifetime=False,
        worker_groups={"gpu": {"gpu": 1, "n_workers": 2}},
        software=["pandas==3.1.1"],
        backend_options={"region_name": "eu-west-1"},
        show_widget=False,
    ).close()
    assert_type(Cluster.from_name("nightly", connect="private"), Cluster)


def jobs(cluster: Cluster) -> None:
    job = cluster.run_command(["python", "train.py"], files=["train.py"], timeout="2 hours")
    assert_type(job, Job)
    print(job.wait(timeout=60), job.exit_code, job.logs(), job.name)
    record: JobRecord = job.record()
    print([task.state for task in cluster.map_commands(["x", "{}"], ["1", "2"]).tasks], record)


async def in_an_event_loop() -> None:
    async with Cluster(asynchronous=True, n_workers=2) as cluster:
        assert_type(cluster, Cluster)
        await cluster.scale(3)
        await cluster.wait_for_workers(3)
        job = await cluster.run_command(["ls"])
        assert_type(job, Job)
        await job.wait()
    waited = await Cluster("etl", asynchronous=True)
    await waited.close()


@terradask.function
def plain(number: int) -> str:
    return str(number)


@terradask.function(cpu=(2, 8), memory="64 GiB", spot_policy="spot_with_fallback", keepalive=60)
def process(path: str, lines: int = 3) -> int:
    return len(path) + lines


def functions() -> None:
    assert_type(plain(1), str)
    assert_type(process("one.txt", lines=2), int)
    assert_type(process.submit("one.txt"), Future[int])
    assert_type(list(process.map(["one.txt"], retries=2)), list[int])
    made: Function[[int], str] = plain
    print(made.client, process.local("one.txt"))


def workspaces() -> None:
    workspace = Workspace.load(progress=print, workspace={"region": "eu-west-1"})
    plan = workspace.plan_cluster("nightly")
    assert_type(plan, Plan)
    deployed = workspace.apply(plan)
    if isinstance(deployed, Deployment):
        print(deployed.status(), deployed.events())
    for each in workspace.deployments():
        print(each.name, each.exists)
    workspace.report(plan)
    workspace.destroy_cluster("nightly")


def look_up() -> None:
    found = offers()
    assert_type(found, Offers)
    one: Offer = found["gpu-small"]
    print(one.max_workers, list_instance_types(cores=[4, 8], arm=True)[0])
    print(set_backend_options(region_name="eu-west-1"))


class Widget:
    def update(self, view: LiveView) -> None:
        print(view)


def drawn(estimate: CostEstimate, findings: list[PolicyFinding]) -> str:
    Cluster(custom_widget=Widget())
    print([finding.severity for finding in findings], terradask.errors.NoBaseline)
    return to_text(estimate)


def handled() -> None:
    try:
        Cluster(create=False)
    except ClusterNotFound as error:
        print(error.advice)
    except (InvalidInput, TerradaskError) as error:
        print(error.given)


if __name__ == "__main__":
    asyncio.run(in_an_event_loop())
