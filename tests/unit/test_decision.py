"""Whether a name is deployed, started or attached to, decided by what is there and what
is allowed.
"""

import itertools

import pytest

from terradask import Cluster
from terradask._dask.decision import (
    check_exclusive,
    check_same_structure,
    closing_error,
    decide,
)
from terradask.errors import ClusterExists, ClusterNotFound, ClusterStopped, InvalidInput

#: (what there is, create, attach) -> what is done, or the error.
EXPECTED = {
    ("nothing", None, None): "deploy",
    ("nothing", True, None): "deploy",
    ("nothing", True, False): "deploy",
    ("nothing", None, False): "deploy",
    ("nothing", False, None): ClusterNotFound,
    ("nothing", False, False): ClusterNotFound,
    ("nothing", None, True): ClusterNotFound,
    ("nothing", False, True): ClusterNotFound,
    ("stopped", None, None): "start",
    ("stopped", False, None): "start",
    ("stopped", None, False): "start",
    ("stopped", False, False): "start",
    ("stopped", True, None): ClusterExists,
    ("stopped", True, False): ClusterExists,
    ("stopped", None, True): ClusterStopped,
    ("stopped", False, True): ClusterStopped,
    ("running", None, None): "attach",
    ("running", False, None): "attach",
    ("running", None, True): "attach",
    ("running", False, True): "attach",
    ("running", True, None): ClusterExists,
    ("running", True, False): ClusterExists,
    ("running", None, False): ClusterExists,
    ("running", False, False): ClusterExists,
}


@pytest.mark.parametrize(("found", "create", "attach"), EXPECTED)
def test_the_way_to_a_cluster(found, create, attach):
    expected = EXPECTED[found, create, attach]
    if isinstance(expected, str):
        assert decide("etl", found, create=create, attach=attach) == expected
        return
    with pytest.raises(expected) as caught:
        decide("etl", found, create=create, attach=attach)
    assert caught.value.cluster == "etl"
    assert caught.value.advice


def test_every_combination_is_in_the_table():
    every = set(
        itertools.product(
            ("nothing", "stopped", "running"), (None, True, False), (None, True, False)
        )
    )
    assert every - set(EXPECTED) == {
        (found, True, True) for found in ("nothing", "stopped", "running")
    }


def test_a_cluster_is_not_new_and_running_at_once():
    with pytest.raises(InvalidInput, match="leave one of them out"):
        check_exclusive(True, True)
    with pytest.raises(InvalidInput, match="both new and running"):
        Cluster("etl", create=True, attach=True)


def test_what_is_to_go_says_how_it_goes():
    error = closing_error("etl")
    assert isinstance(error, ClusterStopped)
    assert "terradask destroy etl" in str(error)


def test_another_structure_is_named_in_plain_words():
    with pytest.raises(InvalidInput) as caught:
        check_same_structure(
            "etl", {"worker_cpu": 4, "region": "a"}, {"worker_cpu": None, "region": "b"}
        )
    assert "given: worker_cpu=4; region='a'\n  allowed: no worker_cpu; region='b'" in str(
        caught.value
    )
