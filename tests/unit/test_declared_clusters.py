"""Settings of declared clusters, and of hardware, as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask_stacks.loading import load_settings

from .settings_files import problems, write

DECLARED = """
[cluster]
max_workers = 20
tags = { team = "research", stage = "dev" }

[clusters.etl]
max_workers = 50
tags = { stage = "prod" }

[clusters.reports]
"""


def test_a_declared_cluster_has_its_own_settings_over_those_of_every_cluster(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, DECLARED)

    loaded = load_settings(
        path, environ={"TERRADASK_CLUSTER__N_WORKERS": "7", "TERRADASK_CLUSTER__MAX_WORKERS": "30"}
    )

    etl, reports = loaded.settings.clusters["etl"], loaded.settings.clusters["reports"]
    assert (etl.max_workers, etl.n_workers, etl.tags) == (
        50,
        7,
        {"team": "research", "stage": "prod"},
    )
    assert (reports.max_workers, reports.tags) == (30, {"team": "research", "stage": "dev"})
    assert loaded.settings.cluster_named("other") == loaded.settings.cluster
    assert loaded.settings.for_cluster("etl").cluster == etl
    assert loaded.origins["clusters.etl.max_workers"] == f"clusters.etl.max_workers in {path}"
    assert loaded.origins["clusters.reports.max_workers"] == "TERRADASK_CLUSTER__MAX_WORKERS"


def test_arguments_are_above_a_declared_cluster_too(tmp_path: Path) -> None:
    path = write(tmp_path, DECLARED)

    loaded = load_settings(
        path, environ={}, overrides={"cluster": {"max_workers": 60, "tags": {"job": "7"}}}
    )

    etl = loaded.settings.clusters["etl"]
    assert (etl.max_workers, etl.tags) == (60, {"team": "research", "stage": "prod", "job": "7"})
    assert loaded.settings.cluster.max_workers == 60
    assert loaded.origins["clusters.etl.max_workers"] == "argument max_workers"


def test_dasks_configuration_may_declare_clusters(tmp_path: Path) -> None:
    loaded = load_settings(
        write(tmp_path, ""), environ={}, dask_config={"clusters": {"night-run": {"max-workers": 3}}}
    )

    assert loaded.settings.clusters["night-run"].max_workers == 3


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        (
            "[clusters.etl]\nmax_worker = 3\n",
            "clusters.etl.max_worker in {path}",
            "did you mean max_workers?",
        ),
        ("[clusters.etl]\nmax_workers = 0\n", "clusters.etl.max_workers in {path}", "1 or more"),
        ("[clusters]\netl = 3\n", "clusters.etl in {path}", "[clusters.etl] with "),
        ("clusters = 3\n", "clusters in {path}", "a table for each cluster"),
        ("[clusters.network]\n", "clusters.network", "network is the stack"),
        ("[clusters.ETL]\n", "clusters.ETL", "a lower-case letter"),
        ("[clusters.etl]\nn_workers = 300\n", "clusters.etl", "0 to 200"),
        ("[clusters.etl.cluster]\n", "clusters.etl.cluster in {path}", "remove it"),
    ],
)
def test_a_wrong_declaration_says_where(tmp_path: Path, text: str, where: str, told: str) -> None:
    path = write(tmp_path, text)

    found = problems(path)

    finding = found[where.format(path=path)]
    assert told in f"{finding.allowed} {finding.advice}"


def test_a_declared_clusters_zone_is_one_of_the_networks(tmp_path: Path) -> None:
    path = write(
        tmp_path, '[network]\nzones = ["us-east-1a"]\n[clusters.etl]\nzone_name = "us-east-1b"\n'
    )

    (finding,) = problems(path).values()

    assert "clusters.etl.zone_name is us-east-1b" in finding.problem


# ---- hardware ------------------------------------------------------------------------------------


def test_hardware_is_written_as_everyone_writes_it(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        (
            '[cluster]\nworker_memory = "32GiB"\nworker_cpu = [8, 8]\nworker_gpu = '
            'true\nscheduler_memory = ["4 GiB", "8192MiB"]\n'
        ),
    )
    cluster = load_settings(
        path, environ={"TERRADASK_CLUSTER__SCHEDULER_CPU": "*"}
    ).settings.cluster
    assert (cluster.worker_memory, cluster.worker_cpu, cluster.worker_gpu) == ("32 GiB", 8, 1)
    assert (cluster.scheduler_memory, cluster.scheduler_cpu) == (["4 GiB", "8 GiB"], "*")


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        ("worker_cpu = 'four'", "cluster.worker_cpu in {path}", "or '*' for any"),
        ("worker_memory = 16", "cluster.worker_memory in {path}", "write the unit"),
        (
            "scheduler_memory = ['32 GiB', '16 GiB']",
            "cluster.scheduler_memory in {path}",
            "write ['16 GiB', '32 GiB']",
        ),
        ("worker_gpu = -1", "cluster.worker_gpu in {path}", "a whole number"),
        ("worker_gpu_type = ''", "cluster.worker_gpu_type in {path}", "A10G"),
        ("worker_cpu = 4\nworker_vm_types = ['m6i.xlarge']", "cluster", "leave worker_cpu out"),
        ("worker_gpu = 0\nworker_gpu_type = 'T4'", "cluster", "leave worker_gpu_type out"),
    ],
)
def test_hardware_that_cannot_be_read_is_refused_when_settings_load(
    tmp_path: Path, text: str, where: str, told: str
) -> None:
    path = write(tmp_path, f"[cluster]\n{text}\n")
    finding = problems(path)[where.format(path=path)]
    assert told in f"{finding.allowed} {finding.advice}"


def test_a_later_layer_that_asks_takes_back_the_types_that_an_earlier_one_names(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path, "[cluster]\nworker_vm_types = ['m6i.large']\n[clusters.big]\nworker_cpu = 16\n"
    )
    settings = load_settings(path, environ={}, overrides={"cluster": {"scheduler_cpu": 2}}).settings
    assert (settings.cluster.worker_vm_types, settings.clusters["big"].worker_vm_types) == (
        ["m6i.large"],
        None,
    )
    asked = load_settings(path, environ={"TERRADASK_CLUSTER__WORKER_MEMORY": "8 GiB"}).settings
    assert (asked.cluster.worker_vm_types, asked.clusters["big"].worker_memory) == (None, "8 GiB")
    named = load_settings(
        path, environ={}, overrides={"cluster": {"worker_vm_types": ["c6i.large"]}}
    ).settings
    assert (named.clusters["big"].worker_vm_types, named.clusters["big"].worker_cpu) == (
        ["c6i.large"],
        None,
    )
