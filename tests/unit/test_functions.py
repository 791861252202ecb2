"""Functions that run on a cluster: what they ask for, whose cluster it is, when it is opened."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import cloudpickle
import pytest
from distributed import Client, LocalCluster

import terradask
from terradask._dask.functions.function import Function
from terradask._dask.functions.hardware import FunctionClusters, open_cluster, read_hardware
from terradask.errors import InvalidInput

ADA = "arn:aws:iam::123456789012:user/ada"


def hardware(n_workers=None, threads_per_worker=1, **given):
    return read_hardware(given, n_workers=n_workers, threads_per_worker=threads_per_worker)


def test_one_request_of_one_caller_has_one_name() -> None:
    name = hardware(cpu=4, memory="16 GiB", tags={"a": "1", "b": "2"}).name_for(ADA)
    assert name.startswith("function-")
    assert (
        hardware(tags={"b": "2", "a": "1"}, worker_memory="16 GiB", worker_cpu=4).name_for(ADA)
        == name
    )
    # What only this client does is no part of it.
    shown = hardware(cpu=4, memory="16 GiB", tags={"a": "1", "b": "2"}, show_widget=False)
    assert shown.name_for(ADA) == name


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": 8},
        {"cpu": 4, "spot_policy": "spot"},
        {"cpu": 4, "n_workers": 3},
        {"cpu": 4, "n_workers": [0, 3]},
        {"cpu": 4, "threads_per_worker": 2},
        {"cpu": 4, "region": "eu-west-1"},
        {"cpu": 4, "environ": {"A": "1"}},
        {"cpu": 4, "keepalive": "5m"},
    ],
)
def test_another_request_has_another_name(other) -> None:
    assert hardware(**other).name_for(ADA) != hardware(cpu=4).name_for(ADA)


def test_whose_session_it_is_does_not_matter_but_whose_role() -> None:
    def session(role, name):
        return hardware().name_for(f"arn:aws:sts::123456789012:assumed-role/{role}/{name}")

    assert session("science", "one") == session("science", "two") != session("platform", "one")


def test_another_user_of_this_role_has_another_cluster(monkeypatch) -> None:
    first = hardware().name_for(ADA)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert hardware().name_for(ADA) != first
    assert hardware(name="shared").name_for(ADA) == "shared"


@pytest.mark.parametrize(
    ("n_workers", "begins", "bounds", "most"),
    [
        (None, 1, (0, None), None),
        (5, 5, None, None),
        ([0, 500], 1, (0, 500), 500),
        ([2, 8], 2, (2, 8), 8),
    ],
)
def test_numbers_of_workers(n_workers, begins, bounds, most) -> None:
    found = hardware(n_workers)
    assert found.arguments["n_workers"] == begins
    assert found.bounds == bounds
    assert found.arguments.get("max_workers") == most


@pytest.mark.parametrize("n_workers", [[3, 1], [0, 0], [1, 2, 3], [-1, 2], [1.5, 2], "12"])
def test_no_numbers_of_workers(n_workers) -> None:
    with pytest.raises(InvalidInput):
        hardware(n_workers)


def test_a_calls_thread() -> None:
    assert hardware(worker_options={"memory_limit": "1 GiB"}).arguments["worker_options"] == {
        "memory_limit": "1 GiB",
        "nthreads": 1,
    }
    assert "worker_options" not in hardware(threads_per_worker=None).arguments


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"cpu": 4, "worker_cpu": 8}, InvalidInput, "leave `cpu` out"),
        ({"asynchronous": True}, InvalidInput, "asyncio.to_thread"),
        ({"attach": True}, InvalidInput, "a cluster that runs is used"),
        ({"cloud": "gcp"}, InvalidInput, "cloud is not supported"),
        ({"keepalive": "soon"}, InvalidInput, "soon"),
        ({"name": "Not A Name"}, InvalidInput, "lower-case"),
        ({"spot_polcy": "spot"}, TypeError, "did you mean 'spot_policy'"),
        ({"memori": "8 GiB"}, TypeError, "did you mean 'memory'"),
    ],
)
def test_a_mistake_is_told_when_the_function_is_defined(given, error, says) -> None:
    with pytest.raises(error, match=says):
        terradask.function(**given)


def test_hardware_is_given_by_name() -> None:
    with pytest.raises(InvalidInput, match="by name"):
        terradask.function(4)


def square(x: int) -> int:
    """Return the square."""
    return x * x


def test_it_looks_like_the_function() -> None:
    far = terradask.function(memory="8 GiB", spot_policy="spot")(square)
    assert (far.__name__, far.__doc__) == ("square", "Return the square.")
    assert repr(far).startswith("<terradask.function square (memory='8 GiB'")
    assert far.local(3) == 9


def test_where_it_is_sent_to_it_is_the_plain_function() -> None:
    far = terradask.function(square)

    def twice(x):
        return far(far(x))

    back = cloudpickle.loads(cloudpickle.dumps(twice))
    # It would open a cluster here.
    assert back(3) == 81


class Opener:
    """Opens clusters that are no clusters, and counts."""

    def __init__(self) -> None:
        self.opened: list[SimpleNamespace] = []
        self.lets = threading.Event()
        self.lets.set()

    def __call__(self, name, hardware):
        assert self.lets.wait(10)
        closable = SimpleNamespace(close=lambda: None)
        self.opened.append(SimpleNamespace(cluster=closable, client=closable, is_usable=True))
        return self.opened[-1]


def test_a_cluster_is_opened_once_whoever_asks() -> None:
    opener = Opener()
    clusters = FunctionClusters(opener)
    opener.lets.clear()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(clusters.get("one", hardware())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    opener.lets.set()
    for thread in threads:
        thread.join(10)
    assert found == opener.opened * 4
    assert clusters.get("two", hardware()) is opener.opened[1]


def test_a_cluster_that_has_ended_is_opened_again() -> None:
    opener = Opener()
    clusters = FunctionClusters(opener)
    clusters.get("one", hardware()).is_usable = False
    assert clusters.opened("one") is None
    assert clusters.get("one", hardware()) is opener.opened[1]


def test_a_cluster_that_cant_be_used_is_left_again(monkeypatch) -> None:
    left = []

    class Refusing:
        origin = "started"

        def __init__(self, **arguments):
            self.name = arguments["name"]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            left.append(self.name)

        def adapt(self, **_):
            raise OSError("no route")

    monkeypatch.setattr("terradask._dask.functions.hardware.Cluster", Refusing)
    with pytest.raises(OSError, match="no route"):
        open_cluster("one", hardware())
    assert left == ["one"]


def test_a_forked_child_opens_its_own() -> None:
    opener = Opener()
    clusters = FunctionClusters(opener)
    clusters.get("one", hardware())
    pid = os.fork()
    if not pid:
        clusters.get("one", hardware())
        os._exit(len(opener.opened))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2


@pytest.fixture(scope="module")
def here():
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield FunctionClusters(
            lambda name, hardware: SimpleNamespace(cluster=cluster, client=client, is_usable=True)
        )


@pytest.fixture
def far(here):
    def make(function):
        return Function(function, hardware(), here, lambda: "one")

    return make


def test_calls_run_there(far) -> None:
    def add(x, y=1):
        return x + y

    assert far(add)(2, y=3) == 5
    one = far(add).submit(2)
    assert far(add).submit(one, y=one).result() == 6
    assert one.key.startswith("add-")


def test_a_functions_argument_may_be_called_as_one_of_dasks(far) -> None:
    def pick(mapping, key, workers=()):
        return mapping[key], workers

    assert far(pick)({"a": 1}, key="a", workers=[2]) == (1, [2])


def test_each_call_runs(far) -> None:
    drawn = far(os.urandom)
    assert drawn(8) != drawn(8)
    first, second = drawn.map([8, 8])
    assert first != second


def test_map_keeps_the_order_and_takes_two_lists(far) -> None:
    assert list(far(lambda x, y: x - y).map(range(5), [1] * 5)) == [-1, 0, 1, 2, 3]


def test_errors_of_a_map(far) -> None:
    def invert(x):
        return 1 / x

    assert list(far(invert).map([1, 0, 2], errors="skip")) == [1.0, 0.5]
    results = far(invert).map([1, 0, 2])
    assert next(results) == 1.0
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(InvalidInput, match="'raise' or 'skip'"):
        far(invert).map([1], errors="ignore")


def test_an_error_of_a_call_is_its_own(far) -> None:
    def fail():
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        far(fail)()


def test_a_task_that_calls_one_runs_it_there(far) -> None:
    inner = far(square)

    def outer(x):
        return inner(x) + 1

    assert far(outer)(3) == 10


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def times(self, x):
        return self.factor * x


def test_a_method_is_called_with_its_object(far, monkeypatch) -> None:
    monkeypatch.setattr(Scale, "times", far(Scale.times))
    assert Scale(3).times(2) == 6
    assert list(Scale(3).times.map([1, 2])) == [3, 6]
    assert Scale(3).times.local(4) == 12
    assert Scale.times(Scale(3), 5) == 15
