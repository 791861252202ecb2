"""Package sync: what hosts get of an environment, as the real uv resolves it on an index."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import socket
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from terradask._clusters.start import with_start_options
from terradask._software.hosts import host_markers
from terradask._software.package_origin import Origin
from terradask._software.package_sync import (
    lock_environment,
    lock_for_hosts,
)
from terradask._software.resolver import Resolver, Unsolvable
from terradask._software.scan import Installed, dependency_closure, exclusive_dependencies, scan
from terradask._software.sync import PackageSync, Sync, Synced
from terradask.errors import (
    SetupError,
    SoftwareNotResolved,
    SoftwareUnusable,
)
from terradask_host.agent.environment import Environment, check_lock
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths
from terradask_stacks.settings import ClusterSettings

from ..command import in_this_process
from ..package_index import publish, serving
from ..source_packages import install, source_folder
from ..waiting import PROCESS_SECONDS

LOCAL = Origin("editable", "editable, from file:///x")
MAC = "cp312-cp312-macosx_11_0_arm64"
NEW_GLIBC = "py3-none-manylinux_2_39_x86_64"
X86 = "py3-none-manylinux_2_28_x86_64"
ON_X86 = "sys_platform == 'linux' and platform_machine == 'x86_64'"

#: Variables by which this machine reaches other indexes than the test's own.
_OF_INDEXES = re.compile(r"UV_|\w+_proxy$", re.IGNORECASE)

Environ = dict[str, str]


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """The paths that the index was asked for."""
    return []


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory, asked: list[str]) -> Iterator[Environ]:
    """The variables of a client whose index is the test's own."""
    root = tmp_path_factory.mktemp("index")
    publish(root, "dask", "1.0", needs=["tools>=1"])
    publish(root, "tools", "1.0")
    publish(root, "torch", "2.0", needs=[f"nvidia==3.0; {ON_X86}", "numbers<9", "own"])
    publish(root, "nvidia", "3.0", needs=["nvidia-runtime"], tag=X86)
    publish(root, "nvidia-runtime", "1.0", tag=X86)
    publish(root, "numbers", "8.0")
    publish(root, "numbers", "9.0", beside=True)
    publish(root, "own", "1.0", body="raise SystemExit('attacked')")
    publish(root, "new", "1.0", tag=NEW_GLIBC)
    publish(root, "new", "1.4", beside=True)
    publish(root, "new", "2.0", beside=True)
    publish(root, "soft", "1.0", tag=NEW_GLIBC)
    publish(root, "soft", "1.1", beside=True)
    publish(root, "nvidia", "4.0", tag=X86, beside=True)
    publish(root, "mac", "1.0", tag=MAC)
    publish(root, "user", "1.0", needs=["new>=1"])
    publish(root, "lonely", "1.0", needs=["nowhere"])
    publish(root, "picky", "1.0", needs=["new<1.1"])
    publish(root, "local", "1.0")
    with serving(root, asked) as url:
        yield client(url, tmp_path_factory.mktemp("cache"))


def client(url: str, cache: Path) -> Environ:
    own = {name: value for name, value in os.environ.items() if not _OF_INDEXES.match(name)}
    return own | {"UV_DEFAULT_INDEX": url, "UV_CACHE_DIR": str(cache), "UV_NO_CONFIG": "1"}


def installed(
    name: str, version: str = "1.0", *needs: str, origin: Origin | None = None
) -> Installed:
    return Installed(name, version, tuple(map(Requirement, needs)), origin=origin)


DASK = (installed("dask", "1.0", "tools>=1"), installed("tools"))


@pytest.fixture
def synced(environ: Environ) -> Callable[..., Synced]:
    """Resolve these packages of an x86-64 Mac with Python 3.12, besides Dask."""

    def sync(
        *packages: Installed,
        architecture: str = "x86_64",
        variables: Environ = environ,
        **options: Any,
    ) -> Synced:
        everything = [*DASK, *packages]
        here = {**host_markers("x86_64"), "sys_platform": "darwin", "platform_system": "Darwin"}
        hosts = host_markers(architecture)
        found = scan(everything, python="3.12", architecture=architecture, here=here, hosts=hosts)
        names = options.get("packages", True)
        only = None if names is True else dependency_closure(everything, names, hosts)
        resolver = Resolver(architecture, variables)
        critical = dependency_closure(everything, ["dask"], hosts)
        own = exclusive_dependencies("terradask", everything, hosts)
        return Sync(found, resolver, critical, PackageSync(**options), only, own)()

    return sync


def test_hosts_get_the_versions_of_here_also_where_they_contradict(synced) -> None:
    found = synced(installed("torch", "2.0", "numbers<9"), installed("numbers", "9.0"))
    assert found.packages["numbers"] == "9.0"
    assert found.packages["torch"] == "2.0"
    assert (found.missing, found.changed) == ({}, {})
    assert all(found.hashes[name] for name in found.packages)


def test_what_only_hosts_need_comes_with_what_it_needs(synced) -> None:
    torch = installed("torch", "2.0", f"nvidia==3.0; {ON_X86}")
    own = installed("own", origin=LOCAL)
    assert {"nvidia", "nvidia-runtime"} <= synced(torch, own).packages.keys()
    assert "nvidia" not in synced(torch, own, architecture="arm64").packages


def test_a_name_that_came_from_no_index_is_not_looked_up_in_one(
    synced, asked, environ, tmp_path
) -> None:
    """Not as a dependency either, and not in the search for another version of some package."""
    asked.clear()
    found = synced(
        installed("torch", "2.0", "own"),
        installed("numbers", "8.0"),
        installed("new"),
        installed("own", origin=LOCAL),
        variables={**environ, "UV_CACHE_DIR": str(tmp_path)},
    )
    assert found.missing == {"own": "1.0, editable, from file:///x"}
    assert "own" not in found.packages
    assert "new" in found.changed
    assert "/simple/torch/" in asked
    assert not [path for path in asked if "own" in path]


def test_a_version_without_a_wheel_for_hosts_is_found_and_another_taken(synced) -> None:
    found = synced(installed("new"), installed("user", "1.0", "new>=1"))
    assert found.changed == {"new": ("1.0", "1.4")}
    assert found.packages["user"] == "1.0"


def test_another_version_has_to_suit_what_needs_it(synced) -> None:
    found = synced(installed("new"), installed("picky", "1.0", "new<1.1"))
    assert found.changed == {}
    assert found.missing == {"new": "the index has no wheel of it for hosts"}
    assert found.packages["picky"] == "1.0"


def test_of_several_each_that_suits_is_taken(synced) -> None:
    mine = (installed("new"), installed("picky", "1.0", "new<1.1"), installed("soft", "1.0"))
    found = synced(*mine)
    assert found.changed == {"soft": ("1.0", "1.1")}
    assert found.missing.keys() == {"new"}


def test_what_contradicts_itself_on_hosts_alone_is_uvs_to_say(synced) -> None:
    one = installed("torch", "2.0", f"nvidia==3.0; {ON_X86}")
    other = installed("local", "1.0", f"nvidia==4.0; {ON_X86}")
    with pytest.raises(SoftwareNotResolved, match=r"nvidia==3\.0"):
        synced(one, other, installed("own", origin=LOCAL))


def test_strictly_it_is_missing_and_so_is_what_has_no_wheel_at_all(synced) -> None:
    mine = (installed("new"), installed("mac"), installed("absent"), installed("user"))
    assert synced(*mine).missing.keys() == {"mac", "absent"}
    found = synced(*mine, strict=True)
    assert found.missing.keys() == {"mac", "new", "absent"}
    assert found.packages.keys() == {"dask", "tools", "user"}


def test_of_a_local_version_hosts_get_the_public_one(synced) -> None:
    found = synced(installed("numbers", "9.0+mine"))
    assert found.changed == {"numbers": ("9.0+mine", "9.0")}


@pytest.mark.parametrize(
    ("package", "fail_on", "named"),
    [
        (installed("mac"), "warning-or-higher", "mac"),
        (installed("own", origin=LOCAL), "warning-or-higher", "own"),
        (installed("own", origin=LOCAL), "any", "own"),
        (installed("new"), "any", "1.0 locally, 1.4 on hosts"),
    ],
)
def test_what_is_an_error_is_the_callers_choice(synced, package, fail_on, named) -> None:
    with pytest.raises(SoftwareUnusable, match=named):
        synced(package, fail_on=fail_on)
    if "here" in named:
        assert synced(package, fail_on="warning-or-higher").changed


def test_a_package_that_dask_needs_has_to_be_there_exactly(synced, environ) -> None:
    hosts = host_markers("x86_64")
    for origin, said in (
        (LOCAL, "installed locally from elsewhere"),
        (None, "can't have all packages"),
    ):
        mine = [installed("dask", "1.0", "new"), installed("new", origin=origin)]
        found = scan(mine, python="3.12", architecture="x86_64", here=hosts, hosts=hosts)
        critical = dependency_closure(mine, ["dask"], hosts)
        assert critical == {"dask", "new"}
        with pytest.raises(SoftwareUnusable, match=f"(?s){said}.*new"):
            Sync(found, Resolver("x86_64", environ), critical)()


def test_names_come_with_what_they_need_and_the_rest_stays_away(synced) -> None:
    mine = (
        installed("torch", "2.0", "numbers", "own"),
        installed("numbers", "9.0"),
        installed("local"),
        installed("own", origin=LOCAL),
    )
    found = synced(*mine, packages=["torch"])
    assert found.packages.keys() >= {"dask", "tools", "torch", "numbers"}
    assert "local" not in found.packages
    assert found.missing.keys() == {"own"}
    assert synced(*mine, packages=["local"]).missing == {}


def test_what_is_ignored_stays_away_unless_it_is_needed(synced) -> None:
    mine = (installed("local"), installed("torch", "2.0", "numbers"), installed("numbers", "9.0"))
    own = installed("own", origin=LOCAL)
    found = synced(*mine, own, ignore=["local", "numbers", "own", "dask"])
    assert "local" not in found.packages
    assert found.packages["numbers"] == "9.0"
    assert "dask" in found.packages
    assert found.missing == {}


def test_terradask_and_what_only_it_needs_may_be_missing_without_a_word(synced) -> None:
    own = installed("terradask", "1.0", "local", "mac", "absent", origin=LOCAL)
    mine = (own, installed("local"), installed("mac"), installed("absent"))
    found = synced(*mine, fail_on="any")
    assert found.packages.keys() == {"dask", "tools", "local"}
    assert synced(*mine, installed("user", "1.0", "mac")).missing.keys() == {"mac"}


def test_what_has_no_wheel_is_found_whatever_uvs_message_says(synced, monkeypatch) -> None:
    mine = [installed("mac"), installed("local"), installed("absent"), installed("torch", "9.9")]
    no_wheel, call = "the index has no wheel of it for hosts", Resolver.__call__
    known = {"absent": "no index has it", "torch": "no index has this version of it"}
    assert synced(*mine).missing == {**known, "mac": no_wheel}

    def silent(self: Resolver, *given: Any, **options: Any) -> Any:
        try:
            return call(self, *given, **options)
        except Unsolvable:
            raise Unsolvable("") from None

    monkeypatch.setattr(Resolver, "__call__", silent)
    assert synced(*mine).missing == dict.fromkeys(["mac", "absent", "torch"], no_wheel)


def test_what_packages_need_and_the_index_lacks_is_uvs_to_say(synced) -> None:
    with pytest.raises(SoftwareNotResolved, match="nowhere was not found"):
        synced(installed("lonely", "1.0", "nowhere"))


def test_an_index_that_does_not_answer_ends_it_without_its_password(synced, tmp_path) -> None:
    with socket.socket() as bound:
        # Nothing listens there, and no other process can.
        bound.bind(("127.0.0.1", 0))
        gone = f"http://me:hunter2@127.0.0.1:{bound.getsockname()[1]}/simple"
        variables = {**client(gone, tmp_path), "UV_HTTP_RETRIES": "0"}
        with pytest.raises(SoftwareNotResolved) as caught:
            synced(variables=variables)
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_without_uv_the_error_says_how_to_get_it(synced, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("terradask._software.installers._installed_uv", lambda _: None)
    monkeypatch.setattr("terradask._software.installers._has_pip", lambda: False)
    with pytest.raises(SetupError, match=r"pip install 'uv>=0\.13'"):
        synced(variables={"PATH": str(tmp_path)})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with Dask alone."""
    for name, needs in (("dask", "Requires-Dist: tools\n"), ("tools", "")):
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n{needs}")
        (about / "RECORD").write_text("")
    found = list(importlib.metadata.distributions(path=[str(tmp_path)]))
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)


def test_the_lock_of_an_environment_is_one_that_hosts_take(site, environ) -> None:
    text = lock_environment(PackageSync(), "arm64", environ).to_requirements()
    lines = check_lock(text)
    assert [line.partition(" ")[0] for line in lines] == ["dask==1.0", "tools==1.0"]
    assert all("--hash=sha256:" in line for line in lines)


def test_a_host_builds_the_environment_of_the_lock(site, environ, monkeypatch, tmp_path) -> None:
    lock = lock_environment(PackageSync(), "x86_64", environ)
    monkeypatch.setenv("UV_DEFAULT_INDEX", environ["UV_DEFAULT_INDEX"])
    python = Environment(
        Paths(tmp_path / "host"),
        lock.python,
        lock.to_requirements(),
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
        require_hashes=True,
    ).build()
    subprocess.run([python, "-c", "import dask, tools"], check=True)


def test_a_package_that_came_from_a_folder_is_built_and_no_index_is_asked_for_it(
    site, environ, asked, monkeypatch, tmp_path
) -> None:
    folder = source_folder(tmp_path / "sources", "own")
    install(tmp_path / "own", "--editable", str(folder))
    (own,) = importlib.metadata.MetadataPathFinder.find_distributions(
        importlib.metadata.DistributionFinder.Context(path=[str(tmp_path / "own")])
    )
    others, real = importlib.metadata.distributions(), importlib.metadata.distribution
    monkeypatch.setattr("importlib.metadata.distributions", lambda: [*others, own])
    monkeypatch.setattr(
        "importlib.metadata.distribution", lambda name: own if name == "own" else real(name)
    )
    offline = {**environ, "UV_NO_BUILD_ISOLATION": "1"}
    asked.clear()
    lock = lock_environment(PackageSync(), "arm64", offline)
    (line,) = [line for line in check_lock(lock.to_requirements()) if line.startswith("own ")]
    assert [f"own @ {key}" for key in lock.contents] == [line]
    assert lock.versions["own"] == "1.0"
    assert not lock.missing
    assert not any("/own/" in path for path in asked)
    assert not lock_environment(PackageSync(ignore=("own",)), "arm64", offline).wheels


def test_a_start_takes_the_environment_where_the_settings_say_so(
    site, environ, monkeypatch
) -> None:
    """What the start itself names goes before that."""
    settings = ClusterSettings(package_sync=True, package_sync_ignore=["Jupyter_Lab"])
    wanted = PackageSync(True, ("jupyter-lab",))
    assert PackageSync.of(with_start_options(settings)) == wanted
    assert not PackageSync.of(with_start_options(settings, software=[]))
    with_modules = settings.model_copy(update={"local_modules": True})
    assert with_start_options(with_modules, software=[]).local_modules
    locked = with_start_options(with_modules, software_lock=Path("uv.lock"))
    assert not locked.local_modules
    assert not PackageSync.of(locked)
    assert not PackageSync.of(with_start_options(settings, package_sync=PackageSync(False)))
    given = PackageSync(["pandas"], ("numpy",), True, "any", local_modules=True)
    assert PackageSync.of(with_start_options(ClusterSettings(), package_sync=given)) == given
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = lock_for_hosts(["nothing"], wanted, architecture="x86_64", lock_file=None)
    assert found.packages == {"dask": "1.0", "tools": "1.0"}
    with pytest.raises(SoftwareUnusable, match="nothing"):
        lock_for_hosts(["nothing"], PackageSync(False), architecture="x86_64", lock_file=None)


def test_the_command_prints_the_lock(site, environ, monkeypatch) -> None:
    shown = in_this_process("software", "lock", environ=environ)
    packages = tomllib.loads(shown.stdout)["packages"]
    assert [(each["name"], each["version"]) for each in packages] == [
        ("dask", "1.0"),
        ("tools", "1.0"),
    ]
    monkeypatch.setattr("terradask.cli._software._SLOW_SECONDS", 0.0)
    shown = in_this_process("software", "lock", "--json", environ=environ)
    assert shown.stderr.startswith("asking indexes")
    document = json.loads(shown.stdout)
    assert document["packages"] == {"dask": "1.0", "tools": "1.0"}
    assert document["missing"] == {}
    assert tomllib.loads(document["pylock"])["packages"] == packages


def test_a_name_that_is_not_installed_is_refused(site, environ) -> None:
    with pytest.raises(SoftwareUnusable, match="pandas"):
        lock_environment(PackageSync(["pandas"]), "x86_64", environ)
