"""The environment in which the framework runs apart, made by the real uv from small wheels."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from terradask._common.progress import Message, PhaseFinished, PhaseStarted, ProgressEvent
from terradask._software.uv import UvOutput
from terradask._synthesis import framework_environment
from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask.errors import SetupError
from terradask_modules import frameworks
from terradask_modules.frameworks import CDKTF, CDKTN, Framework, installed_framework, versions_here
from terradask_stacks.loading import SYNTHESIS_PYTHON_VARIABLE
from terradask_stacks.synthesis_lock import locked_versions

MODULE = "the_framework.py"


def _wheel(folder: Path, name: str = "the-framework", content: str = "") -> str:
    """Write a wheel of one module; return its line for a lock."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MODULE, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


Make = Callable[..., FrameworkEnvironment]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return environments of a lock with one small package, which no Python here has."""
    lock = tmp_path / "synthesis.lock"
    lock.write_text(_wheel(tmp_path / "wheels"))
    monkeypatch.setattr(framework_environment, "SYNTHESIS_LOCK", lock)
    monkeypatch.setattr(framework_environment, "installed_framework", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
    }

    def make(
        progress: Callable[[ProgressEvent], None] = lambda _: None, **more: str
    ) -> FrameworkEnvironment:
        return FrameworkEnvironment({**environ, **more}, progress)

    return make


def _says(python: Path) -> str:
    program = "import the_framework; print(the_framework.__file__)"
    command = [str(python), "-I", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_it_is_made_once_with_a_word_to_the_one_who_waits(environment: Make) -> None:
    events: list[ProgressEvent] = []
    one = environment(events.append)
    assert one.kind == "not made"
    other_python = one.other_python()
    assert other_python is not None
    assert one.kind == "not made", "it is made when it is needed"

    python = other_python.get()
    assert one.kind == "made"
    assert _says(python) == str(next(python.parents[1].glob(f"lib/*/site-packages/{MODULE}")))
    message, started, finished = events
    assert isinstance(message, Message)
    assert "once for this version" in message.text
    assert isinstance(started, PhaseStarted)
    assert isinstance(finished, PhaseFinished)
    assert not finished.failed

    python.with_name("left-alone").touch()
    assert environment().get() == python
    assert python.with_name("left-alone").exists()


def test_two_at_once_make_one(environment: Make) -> None:
    made: list[str] = []
    one, other = environment(), environment(lambda event: made.append(type(event).__name__))
    thread = threading.Thread(target=one.get)
    thread.start()
    assert other.get().is_file()
    thread.join()
    assert [path.name for path in one._root.iterdir() if path.is_dir()] == [one._folder.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("at", ["venv", "pip"])
def test_an_interruption_leaves_nothing_half(
    environment: Make, monkeypatch: pytest.MonkeyPatch, at: str, error: type[BaseException]
) -> None:
    real = framework_environment.run_uv

    def interrupted(arguments: list[str], *rest: object, **more: object) -> UvOutput:
        done = real(arguments, *rest, **more)  # type: ignore[arg-type]
        if arguments[0] == at:
            raise error
        return done

    one = environment()
    with monkeypatch.context() as patched:
        patched.setattr(framework_environment, "run_uv", interrupted)
        with pytest.raises(error):
            one.get()
    assert one.kind == "not made"
    assert [path.name for path in one._root.iterdir() if path.is_dir()] == []

    # A killed process removes nothing.
    (one._root / f".making-{one._folder.name}/bin").mkdir(parents=True)
    assert _says(one.get())


def test_what_the_index_does_not_have_is_an_error_with_what_to_do(environment: Make) -> None:
    one = environment(UV_FIND_LINKS="")
    with pytest.raises(SetupError) as error:
        one.get()
    text = str(error.value)
    assert "the-framework" in text
    for advice in (
        "terradask software indexes",
        "pip install 'terradask[deploy]'",
        SYNTHESIS_PYTHON_VARIABLE,
    ):
        assert advice in text
    assert one.kind == "not made"
    assert environment().get().is_file()


def test_another_archive_than_the_locked_one_is_refused(environment: Make, tmp_path: Path) -> None:
    _wheel(tmp_path / "wheels", content="planted = True\n")
    with pytest.raises(SetupError, match="hash"):
        environment().get()


def test_a_source_archive_is_not_built(environment: Make, tmp_path: Path) -> None:
    """Its build would run code that no hash covers."""
    (tmp_path / "wheels/the_framework-1.0-py3-none-any.whl").unlink()
    archive = tmp_path / "wheels/the_framework-1.0.tar.gz"
    archive.write_bytes(b"")
    lock = framework_environment.SYNTHESIS_LOCK
    lock.write_text(f"the-framework==1.0 --hash=sha256:{hashlib.sha256(b'').hexdigest()}\n")
    with pytest.raises(SetupError, match=r"(?s)the-framework.*(no usable wheels|no wheels|build)"):
        environment().get()


def test_the_working_directorys_configuration_of_uv_does_not_count(
    environment: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a cloned repository's."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "uv.toml").write_text('find-links = ["nowhere"]\nno-index = 3\n')
    monkeypatch.chdir(repository)
    assert environment().get().is_file()


def test_one_whose_python_is_gone_is_made_again(environment: Make, tmp_path: Path) -> None:
    python = environment().get()
    python.unlink()
    python.symlink_to(tmp_path / "gone")
    one = environment()
    assert one.kind == "not made"
    assert _says(one.get())


def test_unused_ones_are_removed_when_another_is_made(environment: Make) -> None:
    one = environment()
    root = one._root
    for name, days in (("unused", 31), ("used", 29)):
        folder = root / name
        (folder / "bin").mkdir(parents=True)
        (root / f".{name}.lock").touch()
        then = time.time() - days * 24 * 3600
        os.utime(folder, (then, then))
    one.get()
    assert {path.name for path in root.iterdir() if path.is_dir()} == {"used", one._folder.name}
    assert not (root / ".unused.lock").exists()
    then = time.time() - 31 * 24 * 3600
    os.utime(one._folder, (then, then))
    one.get()
    assert one._folder.stat().st_mtime > then + 3600


def test_remade_on_request(environment: Make) -> None:
    python = environment().get()
    damaged = next(python.parents[1].glob(f"lib/*/site-packages/{MODULE}"))
    damaged.unlink()
    environment().remake()
    assert damaged.is_file()


# ---- a given Python, and none at all -------------------------------------------------------------


def test_a_given_python_comes_before_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FrameworkEnvironment({}).kind == "here"
    assert FrameworkEnvironment({}).other_python() is None
    given = FrameworkEnvironment({SYNTHESIS_PYTHON_VARIABLE: sys.executable})
    assert given.kind == "given"
    other_python = given.other_python()
    assert other_python is not None
    assert other_python.get() == Path(sys.executable)
    given.check()


@pytest.mark.parametrize("given", ["python3", "/nowhere/python", __file__, "/"])
def test_a_given_path_that_is_no_python_is_refused_at_once(given: str) -> None:
    with pytest.raises(SetupError, match=f"{SYNTHESIS_PYTHON_VARIABLE} names no Python") as error:
        FrameworkEnvironment({SYNTHESIS_PYTHON_VARIABLE: given}).other_python()
    assert str(error.value.given) == given


def test_without_uv_the_ways_are_named_before_anything_slow(
    environment: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_environ: object) -> str:
        raise SetupError("uv was not found", given="nowhere")

    monkeypatch.setattr(framework_environment, "find_uv", missing)
    with pytest.raises(SetupError) as error:
        environment().other_python()
    for advice in ("pip install uv", "pip install 'terradask[deploy]'", SYNTHESIS_PYTHON_VARIABLE):
        assert advice in str(error.value)


OF_CDKTF = {"cdktf": "0.21.0", "cdktf-cdktf-provider-aws": "20.1.0"}
OF_CDKTN = {"cdktn": "0.24.3", "cdktn-provider-aws": "25.9.0"}
COMMON = {"constructs": "10.7.2", "jsii": "1.142.0"}


@pytest.mark.parametrize(("used", "own"), [(CDKTF, OF_CDKTF), (CDKTN, OF_CDKTN)])
def test_a_framework_counts_whole_and_in_its_versions_alone(
    used: Framework, own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {**own, **COMMON}

    def lacking_with(**changed: str | None) -> list[str]:
        found = {**whole, **changed}
        monkeypatch.setattr(frameworks, "installed_version", found.get)
        assert (installed_framework() is None) == bool(frameworks.lacking())
        return frameworks.lacking()

    assert lacking_with() == []
    assert installed_framework() is used
    assert versions_here() == whole
    for name in whole:
        assert lacking_with(**{name: None}) == [f"no {name}"]
        wrong = lacking_with(**{name: "0.1"})
        wanted = used.distributions.get(name)
        assert wrong == ([] if wanted is None else [f"{name} 0.1, not {wanted}"])
        assert versions_here() == ({**whole, name: "0.1"} if wanted is None else {})


def test_cdktf_is_used_where_both_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {**OF_CDKTF, **OF_CDKTN, **COMMON}
    monkeypatch.setattr(frameworks, "installed_version", both.get)
    assert installed_framework() is CDKTF
    # Another project's CDKTF is in nobody's way.
    monkeypatch.setattr(frameworks, "installed_version", {**both, "cdktf": "0.20.12"}.get)
    assert installed_framework() is CDKTN
    monkeypatch.setattr(frameworks, "installed_version", {}.get)
    assert frameworks.lacking() == [f"no {name}" for name in CDKTF.names]


@pytest.mark.locked
def test_both_ways_have_one_key_for_the_same_versions() -> None:
    """What one environment has synthesised, another one finds."""
    assert versions_here() == locked_versions()
    given = FrameworkEnvironment({SYNTHESIS_PYTHON_VARIABLE: sys.executable})
    assert given.versions() == versions_here()
