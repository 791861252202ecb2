"""What n_workers can be, and what it means."""

import pytest

from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.numbers import bounds_of, first_of, most_of
from terradask_stacks.settings import ClusterSettings


@pytest.mark.parametrize(
    ("n_workers", "first", "bounds", "most"),
    [
        (None, None, None, 0),
        (0, 0, None, 0),
        (7, 7, None, 7),
        ([2, 9], 2, (2, 9), 9),
        ([0, 0], 0, (0, 0), 0),
    ],
)
def test_a_number_or_bounds(n_workers, first, bounds, most):
    said = ClusterSettings(n_workers=n_workers).n_workers
    assert (said, first_of(said), bounds_of(said), most_of(said)) == (
        n_workers,
        first,
        bounds,
        most,
    )


def test_bounds_may_be_a_tuple():
    assert ClusterSettings(n_workers=(1, 3)).n_workers == [1, 3]


@pytest.mark.parametrize(
    "n_workers", [-1, True, 1.5, "4", [1], [3, 1], [1, 2, 3], [-1, 2], [0, True], {}, [1, 999]]
)
def test_anything_else_is_refused(n_workers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"n_workers|max_workers"):
        load_settings(environ={}, overrides={"cluster": {"n_workers": n_workers}})
