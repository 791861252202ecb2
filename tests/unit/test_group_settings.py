"""Groups of workers in settings: what may be said of one, and what follows for its Auto Scaling
groups, types and quotas.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from terradask._catalog.quotas.check import needs_of
from terradask._synthesis.resolve_cluster import named_or_default
from terradask_modules.errors import InvalidInput
from terradask_stacks.errors import SettingsError
from terradask_stacks.groups import groups_of
from terradask_stacks.settings import ClusterSettings, Settings

from .group_facts import GPU, TOML, load, lock


def test_a_declared_cluster_has_the_groups_of_all_clusters_and_its_own(tmp_path: Path) -> None:
    settings = load(tmp_path, TOML)
    every, etl = settings.cluster.worker_groups, settings.clusters["etl"].worker_groups
    assert (list(every), sorted(etl)) == (["gpu"], ["big", "gpu"])
    assert (etl["gpu"].vm_types, etl["gpu"].gpu, etl["gpu"].n_workers, etl["gpu"].resources) == (
        ["g5.xlarge"],
        1,
        2,
        {"GPU": 1.0},
    )
    assert etl["big"].memory == "256 GiB"


def test_within_a_group_too_whoever_asks_for_cores_takes_back_the_types_of_an_earlier_layer(
    tmp_path: Path,
) -> None:
    text = '[cluster.worker_groups.big]\nvm_types = ["r6i.8xlarge"]\n'
    above = {"cluster": {"worker_groups": {"big": {"cpu": 8}}}}
    assert load(tmp_path, text, overrides=above).cluster.worker_groups["big"].hardware_request(
        "big"
    ).parameters() == {"worker_groups.big.cpu": 8}
    # Tags may be named like anything.
    assert load(
        tmp_path,
        '[cluster]\ntags = { cpu = "1" }\n',
        overrides={"cluster": {"tags": {"vm_types": "2"}}},
    ).cluster.tags == {
        "cpu": "1",
        "vm_types": "2",
    }


def test_dasks_configuration_writes_hyphens_in_groups_too(tmp_path: Path) -> None:
    config = {"cluster": {"worker-groups": {"gpu": {"gpu-type": "A10G"}}}}
    assert load(tmp_path, dask_config=config).cluster.worker_groups["gpu"].gpu_type == "A10G"


@pytest.mark.parametrize(
    "name",
    ["workers", "worker", "scheduler", "spot", "a-b", "gpu-spot", "Gpu", "a" * 17, "", "1st"],
)
def test_names_that_would_meet_other_groups_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no group of workers can be named"):
        ClusterSettings.model_validate({"worker_groups": {name: {}}})


@pytest.mark.parametrize(
    ("table", "where", "told"),
    [
        ("cpus = 4", "cluster.worker_groups.gpu in {path}, at cpus", "did you mean cpu?"),
        (
            'cpu = 4\nvm_types = ["m6i.xlarge"]',
            "cluster.worker_groups.gpu in {path}",
            "leave cpu out, or vm_types",
        ),
        ("n_workers = 21", "cluster.worker_groups.gpu in {path}", "raise the group's max_workers"),
        (
            "resources = { GPU = 0 }",
            "cluster.worker_groups.gpu in {path}, at resources.GPU",
            "more than 0",
        ),
        (
            'resources = { "a b" = 1 }',
            "cluster.worker_groups.gpu in {path}, at resources.a b",
            "such as GPU",
        ),
        ('spot_policy = "cheap"', "cluster.worker_groups.gpu in {path}, at spot_policy", "'spot'"),
    ],
)
def test_a_wrong_table_says_where(tmp_path: Path, table: str, where: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, f"[cluster.worker_groups.gpu]\n{table}\n")
    (finding,) = caught.value.findings
    assert finding.where == where.format(path=tmp_path / "terradask.toml")
    assert told in f"{finding.allowed} {finding.advice}"


def test_what_is_no_table_is_told_in_no_words_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "[cluster.worker_groups]\ngpu = 4\n")
    (finding,) = caught.value.findings
    assert (finding.problem, finding.given, finding.allowed) == (
        "Input should be a table",
        4,
        "a table",
    )


def test_each_group_has_an_auto_scaling_group_for_each_of_its_markets() -> None:
    cluster = ClusterSettings.model_validate(
        {
            "spot_policy": "spot_with_fallback",
            "worker_groups": {"gpu": GPU, "big": {"spot_policy": "on-demand"}},
        }
    )
    groups = {
        group.key: group
        for group in groups_of(cluster, lock(gpu=["g4dn.xlarge"], big=["r6i.8xlarge"]))
    }
    assert list(groups) == ["scheduler", "workers-spot", "workers", "big", "gpu-spot", "gpu"]
    assert (
        groups["gpu-spot"].max_size,
        groups["gpu-spot"].market,
        groups["gpu-spot"].worker_group,
    ) == (5, "spot", "gpu")
    assert groups["gpu"].resources == groups["gpu-spot"].resources == {"GPU": 1}
    assert (groups["big"].instance_types, groups["big"].max_size) == (("r6i.8xlarge",), 20)
    assert cluster.most_hosts == 200 + 5 + 20


def test_answers_without_a_groups_types_are_refused() -> None:
    with pytest.raises(InvalidInput, match="gpu"):
        groups_of(ClusterSettings.model_validate({"worker_groups": {"gpu": {}}}), lock())


def test_quotas_count_every_group() -> None:
    given = Settings.model_validate(
        {
            "clusters": {
                "etl": {
                    "max_workers": 10,
                    "worker_groups": {
                        "gpu": {
                            "vm_types": ["g4dn.xlarge"],
                            "max_workers": 3,
                            "spot_policy": "spot",
                        }
                    },
                }
            }
        }
    )
    types = {"etl": named_or_default(given.clusters["etl"])}
    vcpus = {"m6i.xlarge": 4, "g4dn.xlarge": 4}
    needs = {need.quota.code: need.amount for need in needs_of(given, types, vcpus, ["a"])}
    expected = {"L-1216C47A": 4 + 40, "L-3819A6DF": 12, "L-CDE20ADC": 3}
    assert needs | expected == needs
