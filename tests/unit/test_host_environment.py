"""Building the cluster's environment with the real uv, offline: the one package of the lock lies in
a folder.
"""

from __future__ import annotations

import ensurepip
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from distributed import PipInstall

from terradask_host.agent import uv
from terradask_host.agent.environment import Environment, check_lock, environment_folder
from terradask_host.agent.event_queue import EventQueue, Stop, StopRequested
from terradask_host.agent.uv import uv_environ
from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, DocumentChanged, EnvironmentFailed

from ..package_index import list_archive, publish, serving
from ..waiting import PROCESS_SECONDS

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A folder with one wheel instead of a package index."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "probe-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("probe.py", "")
        archive.writestr(
            "probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n"
        )
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("probe-1.0.dist-info/WHEEL", tags)
        archive.writestr("probe-1.0.dist-info/RECORD", "")
    for name, value in {
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON_PREFERENCE": "only-system",
    }.items():
        monkeypatch.setenv(name, value)
    return Paths(tmp_path / "root")


def test_nothing_is_installed_that_the_lock_does_not_list(offline: Paths) -> None:
    """A package that names another as its need doesn't bring it."""
    for name, needs in (("greedy", "Requires-Dist: more\n"), ("more", "")):
        with zipfile.ZipFile(
            offline.root.parent / f"wheels/{name}-1.0-py3-none-any.whl", "w"
        ) as archive:
            archive.writestr(f"{name}.py", "")
            archive.writestr(
                f"{name}-1.0.dist-info/METADATA",
                f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}",
            )
            archive.writestr(
                f"{name}-1.0.dist-info/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    python = Environment(
        offline,
        PYTHON,
        "greedy==1.0\n",
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
    ).build()
    code = (
        "import importlib.util as u; print(u.find_spec('greedy') is not None, "
        "u.find_spec('more') is not None)"
    )
    assert (
        subprocess.run(
            [python, "-I", "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "True False\n"
    )


def test_the_lock_becomes_an_environment_once(offline: Paths) -> None:
    lines: list[str] = []

    def build() -> Path:
        return Environment(
            offline,
            PYTHON,
            "# a comment\nprobe==1.0\n",
            events=EventQueue(),
            log=lines.append,
            deadline_seconds=PROCESS_SECONDS,
        ).build()

    python = build()
    code = "import sys, probe; print(probe.__file__, *sys.version_info[:2])"
    answer = subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert answer.startswith(str(offline.environments))
    assert answer.split()[1:] == PYTHON.split(".")
    assert any(line.startswith("$ ") for line in lines)
    lines.clear()
    assert build() == python
    # No command was run.
    assert not any(line.startswith("$ ") for line in lines)


def test_a_version_that_does_not_exist_is_told_with_the_installers_words(offline: Paths) -> None:
    with pytest.raises(EnvironmentFailed, match=r"(?s)uv pip:.*probe==99\.0"):
        Environment(
            offline,
            PYTHON,
            "probe==99.0",
            events=EventQueue(),
            log=lambda _: None,
            deadline_seconds=PROCESS_SECONDS,
        ).build()
    assert not list(offline.environments.glob("*.whole"))


def test_a_request_to_stop_ends_the_installation(offline: Paths) -> None:
    events = EventQueue()
    threading.Timer(0.02, events.put, (Stop("SIGTERM"),)).start()
    with pytest.raises(StopRequested):
        Environment(
            offline,
            PYTHON,
            "probe==99.0",
            events=events,
            log=lambda _: None,
            deadline_seconds=PROCESS_SECONDS,
        ).build()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package index on loopback, by its folder."""
    with serving(tmp_path / "index") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
        yield tmp_path / "index"


def build_from_index(
    tmp_path: Path,
    lock: str,
    lines: list[str] | None = None,
    *,
    require_hashes: bool = False,
    objects: Mapping[str, bytes] | None = None,
) -> Path:
    log = (lines if lines is not None else []).append
    paths = Paths(tmp_path / "root")
    return Environment(
        paths,
        PYTHON,
        lock,
        events=EventQueue(),
        log=log,
        deadline_seconds=PROCESS_SECONDS,
        require_hashes=require_hashes,
        read=(objects or {}).get,
    ).build()


def own_wheel(tmp_path: Path, body: str) -> tuple[str, bytes]:
    """Return the name of a wheel in the bucket, and its content."""
    digest = publish(tmp_path / "own", "probe", "1.0", body)
    content = (tmp_path / "own/files/probe-1.0-py3-none-any.whl").read_bytes()
    return f"wheels/{digest}/probe-1.0-py3-none-any.whl", content


@pytest.mark.parametrize("hashed", [True, False])
def test_no_index_is_asked_for_a_wheel_of_the_clusters_own(tmp_path, monkeypatch, hashed) -> None:
    key, content = own_wheel(tmp_path, "OWN = True")
    root, asked = tmp_path / "index", list[str]()
    publish(root, "probe", "1.0", "raise SystemExit('attacked')")
    digest = publish(root, "other", "1.0")
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
    lock = f"probe @ {key}\nother==1.0" + (f" --hash=sha256:{digest}\n" if hashed else "\n")
    with serving(root, asked) as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        python = build_from_index(tmp_path, lock, require_hashes=hashed, objects={key: content})
    assert body_of(python) == "OWN = True"
    assert any("other" in path for path in asked)
    assert not any("probe" in path for path in asked)


def test_a_wheel_that_was_exchanged_in_the_bucket_is_refused(tmp_path, index) -> None:
    key, _ = own_wheel(tmp_path, "OWN = True")
    _, planted = own_wheel(tmp_path, "raise SystemExit('attacked')")
    lines: list[str] = []
    with pytest.raises(DocumentChanged, match="not the one that the cluster was started with"):
        build_from_index(tmp_path, f"probe @ {key}\n", lines, objects={key: planted})
    with pytest.raises(EnvironmentFailed, match="not in the bucket"):
        build_from_index(tmp_path, f"probe @ {key}\n", lines)
    assert not lines


def body_of(python: Path) -> str:
    code = "import inspect, probe; print(inspect.getsource(probe))"
    return subprocess.run(
        [python, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_an_archive_that_was_exchanged_is_refused(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index itself tells the hash of what it has, so without the lock's hashes the exchanged
    archive comes in.
    """
    monkeypatch.setattr(uv, "TRIES", 1)
    digest = publish(index, "probe", "1.0", "GOOD = 1")
    others = "".join(f" --hash=sha256:{number:064x}" for number in range(70))
    lock = f"probe==1.0{others} --hash=sha256:{digest}\n"
    python = build_from_index(tmp_path, lock)
    assert body_of(python) == "GOOD = 1"
    # The environment and the installer's cache go: another host.
    shutil.rmtree(tmp_path / "root")
    exchanged = publish(index, "probe", "1.0", "EVIL = 1")
    with pytest.raises(EnvironmentFailed) as refused:
        build_from_index(tmp_path, lock)
    text = str(refused.value)
    assert "Hash mismatch for `probe==1.0`" in text
    assert exchanged in text
    assert "and 70 more" in text
    assert "software_lock" in text
    assert not list(tmp_path.glob("root/**/*.whole"))
    assert body_of(build_from_index(tmp_path, "probe==1.0\n")) == "EVIL = 1"


def test_other_hashes_are_another_environment(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was installed by version, or by another hash, doesn't pass for what this lock wants; nor
    does the installer's cache.
    """
    monkeypatch.setattr(uv, "TRIES", 1)
    build_from_index(
        tmp_path, f"probe==1.0 --hash=sha256:{publish(index, 'probe', '1.0', 'ONE = 1')}\n"
    )
    build_from_index(tmp_path, "probe==1.0\n")
    with pytest.raises(EnvironmentFailed, match="Hash mismatch"):
        build_from_index(tmp_path, f"probe==1.0 --hash=sha256:{'0' * 64}\n")
    two = publish(index, "probe", "1.0", "TWO = 2")
    # Under the same name the cache still has the first archive.
    shutil.rmtree(tmp_path / "root/var/lib/terradask/uv-cache")
    assert body_of(build_from_index(tmp_path, f"probe==1.0 --hash=sha256:{two}\n")) == "TWO = 2"
    assert len(list(tmp_path.glob("root/**/*.whole"))) == 3


def test_with_hashes_nothing_is_built(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a build needs comes from the index without a hash, and it runs code."""
    monkeypatch.setattr(uv, "TRIES", 1)
    source = tmp_path / "probe-1.0"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = '
        '["."]\n[project]\nname = "probe"\nversion = "1.0"\n'
    )
    (source / "backend.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
    archive = index / "files/probe-1.0.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(source, "probe-1.0")
    digest = list_archive(index, "probe", archive)
    with pytest.raises(EnvironmentFailed, match="probe"):
        build_from_index(tmp_path, f"probe==1.0 --hash=sha256:{digest}\n")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(EnvironmentFailed):
        build_from_index(tmp_path, "probe==1.0\n")
    assert (tmp_path / "ran").exists()


def test_versions_alone_are_refused_where_the_cluster_demands_hashes(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no hashes"):
        build_from_index(tmp_path, "probe==1.0\n", require_hashes=True)


def test_hashes_of_some_packages_are_refused() -> None:
    with pytest.raises(ConfigInvalid, match="some packages only"):
        check_lock(f"dask==1\nprobe==1 --hash=sha256:{'0' * 64}\n")


@pytest.mark.parametrize(
    "line",
    [
        "--index-url=x",
        "probe==1 --hash=md5:00",
        "probe==1 --hash=sha256:00",
        "probe==1 --pre",
        "-r other",
        "dask",
        "dask>=2",
        "dask @ file:///x",
        "dask==1 ; x",
        "dask @ https://e.example/dask-1-py3-none-any.whl",
        f"dask @ wheels/{'0a' * 32}/../dask-1-py3-none-any.whl",
        f"dask @ wheels/{'0a' * 32}/dask-1-py3-none-any.whl --pre",
        f"dask @ wheels/{'0a' * 16}/dask-1-py3-none-any.whl",
    ],
)
def test_a_lock_names_exact_versions_and_nothing_else(line: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"software\.lock"):
        check_lock(f"distributed==2026.8.0\n{line}\n")


def test_locks_that_are_fine() -> None:
    lock = (
        "# made by "
        "start\n\ndask[complete]==2026.8.0\nJinja2==3.1.6\ntorch==2.9.0+cpu\nmarkupsafe==3.0.0.post1\n"
    )
    assert len(check_lock(lock)) == 4


@pytest.mark.parametrize("python", ["3", "3.11.4", "2.7", "--version", "None", "3.11; x"])
def test_a_python_that_is_none_is_refused(tmp_path: Path, python: str) -> None:
    with pytest.raises(ConfigInvalid, match="Python"):
        Environment(
            Paths(tmp_path), python, "", events=EventQueue(), log=lambda _: None, deadline_seconds=1
        ).build()


def test_each_lock_has_a_folder_of_its_own(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    one = environment_folder(paths, "3.11", ["a==1", "b==1"])
    assert one == environment_folder(paths, "3.11", ["b==1", "a==1"])
    assert (
        len(
            {
                one,
                environment_folder(paths, "3.12", ["a==1", "b==1"]),
                environment_folder(paths, "3.11", []),
            }
        )
        == 3
    )


def test_uv_writes_into_the_hosts_state_alone(tmp_path: Path) -> None:
    environ = uv_environ(
        {"HOME": "/root", "VIRTUAL_ENV": "/x", "UV_CACHE_DIR": "/y"}, Paths(tmp_path)
    )
    assert "VIRTUAL_ENV" not in environ
    below = str(tmp_path / "var/lib/terradask")
    assert all(environ[name].startswith(below) for name in ("HOME", "UV_CACHE_DIR"))


def test_pip_install_installs_into_an_environment_with_the_clients_pip(
    offline: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's plugin runs ``python -m pip`` on each host."""
    wheels = offline.root.parent / "wheels"
    # Debian has it elsewhere.
    folder = (
        sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled"
    )
    (bundled,) = Path(folder).glob("pip-*.whl")
    shutil.copy(bundled, wheels)
    python = Environment(
        offline,
        PYTHON,
        f"pip=={ensurepip.version()}\n",
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
    ).build()
    monkeypatch.setattr(sys, "executable", str(python))
    PipInstall(["probe"], ["--no-index", f"--find-links={wheels}"])._install_fn()
    subprocess.run([python, "-c", "import probe"], check=True)
    # Where hosts have written it, as their own user, so that what they run can add to it.
    assert python.is_relative_to(offline.environments)
