"""Groups of workers of a deployed cluster: what its descriptor tells, what starts, what
has to fit.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from terradask._clusters.start import with_start_options
from terradask._clusters.worker_counts import numbers_at_start
from terradask._dask.decision import check_same_structure, structure_given
from terradask.errors import DocumentFormat, InvalidInput
from terradask_modules.policies import PolicyScope, host_statements
from terradask_modules.where import Where
from terradask_stacks.settings import ClusterSettings, IngressRule, WorkerGroupSettings
from terradask_stacks.settings.worker_groups import MOST_GROUPS

from .group_facts import GPU, deployment, descriptor


def test_the_descriptor_tells_groups_of_workers_apart() -> None:
    found = descriptor(gpu=GPU | {"spot_policy": "spot_with_fallback"}, big={})
    assert found.worker_groups == {
        "workers": ("workers",),
        "big": ("big",),
        "gpu": ("gpu-spot", "gpu"),
    }
    assert (
        found.max_workers,
        found.most_workers("gpu"),
    ) == (33, 5)
    assert str(found.pools["gpu-spot"]) == "g4dn.xlarge (spot, us-east-1a)"
    assert (found.pools["gpu"].settings, found.pools["workers"].settings) == (
        "worker_groups.gpu.",
        "worker_",
    )


def test_groups_start_with_what_is_asked_else_as_the_settings_say() -> None:
    found = descriptor(gpu=GPU, big={})

    def numbers(**given: Any) -> dict[str, int]:
        return numbers_at_start(found, with_start_options(found.cluster_settings, **given))

    assert numbers() == {"workers": 1, "big": 0, "gpu": 2}
    asked = numbers(n_workers=0, group_workers={"gpu": 5})
    assert asked == {"workers": 0, "big": 0, "gpu": 5}
    unset = found.cluster_settings.model_copy(update={"n_workers": None})
    assert numbers_at_start(found, unset)["workers"] == 4
    with pytest.raises(InvalidInput, match="no group of workers 'tpu'"):
        numbers(group_workers={"tpu": 1})


def test_the_role_of_an_isolated_cluster_can_name_all_groups() -> None:
    keys = [
        f"{'g' * 15}{number}{market}" for number in range(MOST_GROUPS) for market in ("", "-spot")
    ]
    where = PolicyScope(
        where=Where(
            partition="aws-us-gov",
            region="us-gov-west-1",
            account="123456789012",
            workspace="w" * 20,
            cluster="c" * 32,
        ),
        groups=["scheduler", "workers", "workers-spot", *keys],
    )
    # AWS's limit for what is written into a role, without blanks.
    assert len(json.dumps(host_statements(where, "scheduler"), separators=(",", ":"))) < 10_240


@pytest.mark.parametrize(
    ("n", "group", "told"),
    [
        (9, "workers", "[clusters.etl]"),
        (6, "gpu", "[clusters.etl.worker_groups.gpu]"),
        (-1, "gpu", "0 to 5"),
        (1, "gpus", "workers, gpu"),
        (1.0, "gpu", "whole number"),
        (True, "gpu", "whole number"),
    ],
)
def test_numbers_that_a_group_can_not_have_are_refused(n: Any, group: str, told: str) -> None:
    deployment().check_workers(5, "gpu")
    with pytest.raises(InvalidInput) as caught:
        deployment().check_workers(n, group)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("table", "fits"),
    [
        ({"gpu": {"n_workers": 4}}, True),
        ({"gpu": {"gpu": True, "resources": {"GPU": 1}}}, True),
        ({}, True),
        ({"gpu": {"max_workers": 6}}, False),
        ({"tpu": {}}, False),
    ],
)
def test_only_what_is_said_of_a_deployed_group_has_to_be_so(
    table: dict[str, Any], fits: bool
) -> None:
    given = {"worker_groups": table}
    asked, deployed = ClusterSettings.model_validate(given), descriptor().cluster_settings
    both = structure_given(asked, given), structure_given(deployed, given)
    if fits:
        check_same_structure("etl", *both)
    else:
        with pytest.raises(InvalidInput, match="worker_groups"):
            check_same_structure("etl", *both)


def test_what_another_version_has_written_is_read_as_far_as_it_is_known() -> None:
    found = descriptor(gpu=GPU)
    later = {**found.settings, "of_a_later_version": 1, "connect": "telepathy", "max_workers": 0}
    del later["wait_for_workers"], later["package_sync"]
    later["worker_groups"] = {"gpu": {"gpu": 1, "of_a_later_version": 1}}
    later["ingress"] = [{"cidr": "203.0.113.7/32", "of_a_later_version": 1}]
    read = replace(found, settings=later).cluster_settings
    # No value is checked again.
    assert (read.way, read.max_workers) == ("telepathy", 0)
    assert (read.wait_for_workers, read.package_sync) == (0.3, False)
    assert read.worker_groups["gpu"] == WorkerGroupSettings(gpu=1)
    assert read.own_ingress == [IngressRule(cidr="203.0.113.7/32")]
    given = {"max_workers": 5, "scheduler_port": 8786}
    assert structure_given(read, given) == {"max_workers": 0, "scheduler_port": 8786}


@pytest.mark.parametrize("damaged", [{"worker_groups": 3}, {"ingress": [5]}])
def test_damaged_settings_are_refused_as_such(damaged: dict[str, Any]) -> None:
    found = descriptor()
    with pytest.raises(DocumentFormat, match="'etl' doesn't match"):
        _ = replace(found, settings={**found.settings, **damaged}).cluster_settings
