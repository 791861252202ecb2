"""What every test needs of its process."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from tests.distribution import Distribution, kinds_of
from tests.forked_daemons import spawner
from tests.forking import ForkServer
from tests.kept_providers import UNKEPT_VARIABLE
from tests.left_clusters import (
    pytest_fixture_setup,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
from tests.quick_provider import DIRECT_VARIABLE, QuickProvider
from tests.quick_provider import quick_provider as make_quick_provider
from tests.shape_report import ShapeReport
from tests.shared_simulator import bare_sim, policies, sim, sim_environ

from terradask_simulator import process
from tests import shared_clients, shared_packages

# Whoever runs the tests in the background may have SIGINT ignored, and so would every process that
# a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = [
    "bare_sim",
    "policies",
    "pytest_fixture_setup",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "sim",
    "sim_environ",
]

_FRESH_SPAWN = process.spawn

_FORK_SERVERS = pytest.StashKey[tuple[ForkServer, ForkServer]]()
_SHAPES = pytest.StashKey[ShapeReport]()
_RUN_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()

_REPOSITORY = Path(__file__).parent

#: Folders of tests that wait most of their time, for hosts and for Terraform.
_WAITING = [
    _REPOSITORY / folder
    for folder in ("tests/attacks", "tests/plan", "tests/simulator", "simulator/tests/running")
]

#: Markers of what runs only where they are asked for.
_LEFT_OUT = ("soak", "boot", "life")

# A user's zone, and not that of servers: what must be in UTC differs from it. Written so that no
# file of zones is needed.
os.environ["TZ"] = "IST-5:30"
time.tzset()

# Until everything is imported: what is imported stays.
gc.disable()

# Before moto, which reads EC2's model as soon as it is imported.
shared_clients.share()
shared_packages.share()

# A line for each request to moto would fill the reports of failed tests.
logging.getLogger("werkzeug").setLevel(logging.WARNING)

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

# Folders that this machine's pip takes packages from have ours: an index would be asked whether it
# has the same.
os.environ["PIP_CONFIG_FILE"] = os.devnull
os.environ.pop("PIP_FIND_LINKS", None)

# As the Makefile does, for whoever runs pytest without it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless its marker is asked for."""
    asked = str(config.getoption("markexpr"))
    markers = [marker for marker in _LEFT_OUT if marker not in asked]
    left_out = [
        item for item in items if any(item.get_closest_marker(marker) for marker in markers)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        items[:] = _mixed(items)


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Spread the files that wait evenly over the first four fifths of all: beside them the
    processor is free for the others, and none of them is left for the end.
    """
    places: dict[Path, float] = {}
    for waits, part in ((True, 0.8), (False, 1.0)):
        files = list(dict.fromkeys(item.path for item in items if _waits(item.path) == waits))
        places.update((file, part * place / len(files)) for place, file in enumerate(files))
    return sorted(items, key=lambda item: places[item.path])


def _waits(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in _WAITING)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the garbage collector from going through all that was imported, hundreds of thousands of
    objects, again and again.
    """
    given = getattr(session.config, "workerinput", {})
    if given.get("workerid") == "gw0":
        Path(given["kinds_file"]).write_text(json.dumps(kinds_of(session.items)))
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)


def pytest_sessionfinish() -> None:
    """The same for the collections with which pytest ends."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Name the processes that fork, which all processes of a run share."""
    started = getattr(config, "workerinput", {}).get("fork_servers", ("", ""))
    config.stash[_FORK_SERVERS] = (
        ForkServer("tests.forked_daemons", started[0]),
        ForkServer("tests.forked_hosts", started[1]),
    )
    config.stash[_SHAPES] = ShapeReport()
    if not started[0]:
        config.stash[_RUN_FOLDER] = tempfile.TemporaryDirectory(prefix="terradask-tests-")


def _kinds_file(config: pytest.Config) -> Path:
    return Path(config.stash[_RUN_FOLDER].name) / "kinds.json"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell another process of this run where they are."""
    servers = node.config.stash[_FORK_SERVERS]
    node.workerinput["fork_servers"] = [server.address for server in servers]
    node.workerinput["kinds_file"] = str(_kinds_file(node.config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Distribution | None:
    """Have files that share what takes long to make run in the same process."""
    if config.getoption("dist") != "loadfile":
        return None
    return Distribution(config, log, _kinds_file(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End them, if this process started them."""
    for server in config.stash[_FORK_SERVERS]:
        server.close()
    config.stash[_SHAPES].close()
    if _RUN_FOLDER in config.stash:
        config.stash[_RUN_FOLDER].cleanup()


@pytest.fixture
def shape_report(pytestconfig: pytest.Config) -> ShapeReport:
    """What the embedded AWS finds in calls: for tests that cause it."""
    return pytestconfig.stash[_SHAPES]


@pytest.fixture(autouse=True)
def shapes_hold(shape_report: ShapeReport) -> Iterator[None]:
    """Fail the test in which a call or an answer has another shape than botocore's models say."""
    yield
    found = shape_report.take()
    if found:
        pytest.fail("\n".join(" ".join(each.values()) for each in found), pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def fork_servers(pytestconfig: pytest.Config) -> Iterator[tuple[ForkServer, ForkServer]]:
    """Have this process's simulators and their hosts forked, rather than started from nothing."""
    daemons, hosts = pytestconfig.stash[_FORK_SERVERS]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "spawn", spawner(daemons, hosts))
        yield daemons, hosts


@pytest.fixture
def fresh_daemons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process's simulators start from nothing, as users' do."""
    monkeypatch.setattr(process, "spawn", _FRESH_SPAWN)


@pytest.fixture(scope="session")
def quick_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickProvider]:
    """The AWS provider in a package that Terraform checks in no time, and that says of its types
    only what terradask needs.
    """
    with make_quick_provider(
        tmp_path_factory.mktemp("provider"), _REPOSITORY / ".terraform.lock.hcl"
    ) as provider:
        yield provider


@pytest.fixture
def unkept_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have providers end with Terraform: for tests that look at what is left."""
    monkeypatch.setenv(UNKEPT_VARIABLE, "1")


@pytest.fixture
def direct_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Terraform talk to the provider itself: for tests that interrupt or kill."""
    monkeypatch.setenv(DIRECT_VARIABLE, "1")
