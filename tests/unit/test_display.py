"""A cluster's numbers as people see them: hosts, and by group where there are several."""

from __future__ import annotations

from terradask._dask.display import by_group, repr_row, scaling_table
from terradask._dask.pool import WorkerGroupState


def group(plan: int, observed: int) -> WorkerGroupState:
    names = [f"i-{number}" for number in range(plan)]
    return WorkerGroupState(frozenset(names), frozenset(names), frozenset(names[:observed]))


def test_each_group_is_shown_where_there_are_several() -> None:
    groups = {"workers": group(1, 1), "gpu": group(2, 0)}
    assert by_group(groups) == "workers: 1/1, gpu: 0/2"
    assert "workers: 1/1, gpu: 0/2" in (repr_row(groups) or "")
    table = scaling_table("Manual", group(3, 1), groups)
    assert "Workers: 1/3" in table
    assert "the group workers" in table


def test_one_group_is_the_cluster() -> None:
    groups = {"workers": group(2, 1)}
    assert (by_group(groups), repr_row(groups)) == ("", None)
    assert "roup" not in scaling_table("Adaptive", group(2, 1), groups)
