"""Environments of conda's packages on a host: built with the real rattler, from a channel on
loopback, and what of them other hosts get.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask._software.conda.lock import installer_wheel
from terradask._software.local_wheels import LocalWheel
from terradask_host.agent import uv
from terradask_host.agent.dask_process import activated_environ
from terradask_host.agent.environment import Environment, check_lock
from terradask_host.agent.environment_archive import pack, unpack
from terradask_host.agent.event_queue import EventQueue
from terradask_host.channel_credentials import headers, secret_of, with_token
from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, DocumentChanged, EnvironmentFailed

from .. import conda_channel
from ..conda_channel import ARCHITECTURE, MINOR, PLACEHOLDER, SUBDIR, Content, Link
from ..package_index import serving
from ..waiting import PROCESS_SECONDS

DIGEST = "0" * 64
INSTALLER = f"conda-installer wheels/{DIGEST}/py_rattler-0.28.0-cp310-abi3-manylinux_2_17_x86.whl"
FORGE = "https://conda.anaconda.org/conda-forge"
NUMPY = f"conda {FORGE}/linux-64/numpy-2.3.1-py311h2e04523_0.conda --hash=sha256:{DIGEST}"

Build = Callable[..., Environment]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is served: a channel with Python and packages of each kind."""
    root = tmp_path_factory.mktemp("served")
    forge = root / "forge"
    conda_channel.publish_python(forge)
    tools: dict[str, Content] = {
        **conda_channel.module(
            "tools", "1.0", "import sys\nNAME = sys.prefix\ndef main(): print(1)"
        ),
        "share/where.txt": f"{PLACEHOLDER}/share\n".encode(),
        "lib/current": Link("../share"),
        "lib/outside": Link("../../../etc"),
        "etc/conda/activate.d/b.sh": b'export TOOLS="${TOOLS_BASE}/b"\n',
    }
    publish = conda_channel.publish_conda
    publish(
        forge,
        "tools",
        "1.0",
        tools,
        depends=["python"],
        is_python=True,
        programs=["t = tools:main"],
    )
    script = b'#!/bin/bash\necho made > "${PREFIX}/made.txt"\n'
    library = b"\x7fELF" + f"{PLACEHOLDER}/lib\0".encode() + b"more"
    publish(forge, "older", "1.0", {"lib/libolder.so": library}, subdir=SUBDIR, is_old=True)
    publish(forge, "linked", "1.0", {"bin/.linked-post-link.sh": script}, subdir=SUBDIR)
    return root


@pytest.fixture(scope="module")
def installer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWheel]:
    """What a client puts into the bucket."""
    with pytest.MonkeyPatch.context() as patched:
        conda_channel.own_cache(tmp_path_factory.mktemp("cache"), patched)
        yield installer_wheel(ARCHITECTURE)


def line_of(root: Path, url: str, file: str, *, digest: str | None = None) -> str:
    """Return the lock's line of a package."""
    content = (root / "forge" / file).read_bytes()
    return f"conda {url}/{file} --hash=sha256:{digest or hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def build(installer: LocalWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Build an environment of a lock's lines; what fails isn't tried again."""
    monkeypatch.setattr(uv, "TRIES", 1)

    def build(
        *lines: str,
        wheel: bytes | None = installer.content,
        log: list[str] | None = None,
        credentials: dict[str, str] | None = None,
    ) -> Environment:
        environment = Environment(
            Paths(tmp_path / "root"),
            MINOR,
            "\n".join([f"conda-installer {installer.key}", *lines]),
            events=EventQueue(),
            log=(log if log is not None else []).append,
            deadline_seconds=PROCESS_SECONDS,
            read=lambda _: wheel,
            credentials=credentials,
        )
        environment.build()
        return environment

    return build


PYTHON = f"{SUBDIR}/python-{platform.python_version()}-0.conda"
TOOLS = "noarch/tools-1.0-0.conda"
LINKED = f"{SUBDIR}/linked-1.0-0.conda"
OLDER = f"{SUBDIR}/older-1.0-0.tar.bz2"


def test_an_environment_of_conda_is_built_and_another_host_has_it_too(
    build: Build, root: Path, tmp_path: Path
) -> None:
    log: list[str] = []
    with serving(root) as url:
        channel = url.replace("/simple", "/forge")
        files = (PYTHON, TOOLS, LINKED, OLDER)
        built = build(*(line_of(root, channel, each) for each in files), log=log)
    prefix = built.folder
    library = (prefix / "lib/libolder.so").read_bytes()
    # Its parts stay where they are: conda fills up a shorter path.
    assert library.startswith(f"\x7fELF{prefix}/lib\0".encode())
    assert library.endswith(b"more")
    assert len(library) == len(b"\x7fELF" + f"{PLACEHOLDER}/lib\0".encode() + b"more")
    assert (prefix / "share/where.txt").read_text() == f"{prefix}/share\n"
    assert (prefix / "made.txt").read_text() == "made\n"
    assert not (prefix / "lib/outside").is_symlink()
    assert any("lib/outside, a link out of the environment" in line for line in log)
    program = [built.interpreter, "-I", "-c", "import tools; print(tools.NAME)"]
    assert subprocess.check_output(program, text=True) == f"{prefix}\n"
    assert subprocess.check_output([prefix / "bin/t"], text=True) == "1\n"
    # Nothing is left of what installed it.
    assert sorted(path.name for path in prefix.parent.iterdir()) == [
        prefix.name,
        f"{prefix.name}.whole",
    ]

    stream = io.BytesIO()
    pack(prefix, stream)
    stream.seek(0)
    there = Environment(
        Paths(tmp_path / "other"),
        MINOR,
        built.lock_text,
        events=EventQueue(),
        log=log.append,
        deadline_seconds=PROCESS_SECONDS,
    )
    python = there.unpack(lambda folder: unpack(stream, folder))
    assert python.is_symlink()
    assert (there.folder / "lib/current/where.txt").read_text() == f"{prefix}/share\n"
    program[0] = python
    assert subprocess.check_output(program, text=True) == f"{there.folder}\n"
    assert (
        activated_environ(there.folder, {"TOOLS_BASE": "/base", "PATH": "/bin"})["TOOLS"]
        == "/base/b"
    )


def test_an_archive_with_another_hash_is_not_installed(build: Build, root: Path) -> None:
    with serving(root) as url:
        channel = url.replace("/simple", "/forge")
        wrong = line_of(root, channel, TOOLS, digest=DIGEST)
        with pytest.raises(
            EnvironmentFailed, match=rf"(?s)conda:.*{TOOLS} has the SHA-256"
        ) as told:
            build(wrong)
    assert DIGEST in str(told.value)


def test_a_channel_that_does_not_have_it_any_more_is_named(
    build: Build, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv, "TRIES", 2)
    asked: list[str] = []
    with serving(root, asked) as url:
        gone = f"conda {url}/noarch/gone-1.0-0.conda --hash=sha256:{DIGEST}"
        whole = line_of(root, url.replace("/simple", "/forge"), LINKED)
        with pytest.raises(EnvironmentFailed, match=r"noarch/gone-1.0-0.conda can't be downl.*404"):
            build(gone, whole)
    # It was tried twice, and what had come was kept.
    assert asked.count("/simple/noarch/gone-1.0-0.conda") == 2
    assert asked.count(f"/forge/{LINKED}") == 1


def test_what_is_no_package_ends_the_build(build: Build, root: Path) -> None:
    (root / "forge/noarch/broken-1.0-0.conda").write_bytes(b"no archive")
    with serving(root) as url:
        channel = url.replace("/simple", "/forge")
        with pytest.raises(EnvironmentFailed, match="conda:"):
            build(line_of(root, channel, "noarch/broken-1.0-0.conda"))


def test_an_installer_that_is_another_one_is_not_run(build: Build) -> None:
    with pytest.raises(DocumentChanged, match="A wheel in the bucket is not the one"):
        build(NUMPY, wheel=b"another")
    with pytest.raises(EnvironmentFailed, match="is not in the bucket"):
        build(NUMPY, wheel=None)


@pytest.mark.parametrize("kind", ["basic", "token"])
def test_credentials_reach_the_channel_and_no_log(
    build: Build, root: Path, kind: str, tmp_path: Path
) -> None:
    log: list[str] = []
    asked: list[str] = []
    user = "me:s3cr3t" if kind == "basic" else None
    served = tmp_path / "served"
    served.mkdir()
    (served / "forge").symlink_to(root / "forge")
    if kind == "token":
        (served / "t").mkdir()
        (served / "t/s3cr3t").symlink_to(root)
        (served / "forge").unlink()
    with serving(served, asked, user=user) as url:
        channel = url.replace("/simple", "/forge")
        line = line_of(root, channel, LINKED)
        with pytest.raises(EnvironmentFailed, match="can't be downloaded"):
            build(line, log=log, credentials={channel: "me:wrong"})
        credentials = {channel: user or "/t/s3cr3t", "https://other/forge": "a:b"}
        environment = build(line, log=log, credentials=credentials)
        gone = f"conda {channel}/noarch/gone-1.0-0.conda --hash=sha256:{DIGEST}"
        with pytest.raises(EnvironmentFailed, match="gone") as told:
            build(gone, log=log, credentials=credentials)
    assert environment.is_there
    assert "s3cr3t" not in f"{log}{told.value}"
    assert kind == "basic" or f"/t/s3cr3t/forge/{LINKED}" in asked


@pytest.mark.parametrize(
    ("credentials", "secret"),
    [
        ("me:p%40ss", "p%40ss"),
        ("token", "token"),
        ("Bearer a:b", "a:b"),
        ("/t/abc", "abc"),
        ("/conda/t/abc", "abc"),
    ],
)
def test_the_secret_part_of_credentials_is_known(credentials: str, secret: str) -> None:
    assert secret_of(credentials) == secret


def test_requests_have_the_credentials_of_their_channel_alone() -> None:
    known = {"https://a.example:8443/forge": "me:p%40ss", "https://a.example/two": "Bearer abc"}
    basic = {"Authorization": "Basic bWU6cEBzcw=="}
    assert headers("a.example", "/forge/noarch/x.conda", known) == basic
    assert headers("a.example", "/two/repodata.json", known) == {"Authorization": "Bearer abc"}
    for host, path in (("a.example", "/forgery/x"), ("b.example", "/forge/x"), ("a.example", "/")):
        assert headers(host, path, known) is None
    token = {"https://a.example/conda/forge": "/conda/t/abc"}
    assert headers("a.example", "/conda/forge/x", token) is None
    url = "https://a.example/conda/forge"
    assert with_token(f"{url}/x", token) == "https://a.example/conda/t/abc/forge/x"
    assert with_token(f"{url}ry/x", token) == f"{url}ry/x"


@pytest.mark.parametrize(
    "line",
    [
        NUMPY.replace("https://", "file://"),
        NUMPY.replace("https://", "https://me:pass@"),
        NUMPY.replace("/conda-forge", "/t/token/conda-forge"),
        NUMPY.replace("linux-64/", "osx-64/"),
        NUMPY.replace("linux-64/", "linux-64/../"),
        NUMPY.replace(".conda ", ".whl "),
        NUMPY.replace("numpy-2.3.1", "--option-2.3.1"),
        NUMPY.replace("sha256:", "md5:"),
        NUMPY.replace(f" --hash=sha256:{DIGEST}", ""),
        f"{NUMPY} --other",
        NUMPY.replace("https", "\thttps"),
        INSTALLER.replace("wheels/", "other/"),
        INSTALLER.replace("py_rattler", "../py_rattler"),
        INSTALLER.replace("py_rattler", "another"),
        f"{INSTALLER} {NUMPY}",
    ],
)
def test_no_line_leads_elsewhere(line: str) -> None:
    assert check_lock(f"{INSTALLER}\n{NUMPY}\nuv==1.0 --hash=sha256:{DIGEST}\n")
    with pytest.raises(ConfigInvalid, match="without an exact version"):
        check_lock(f"{INSTALLER}\n{NUMPY}\n{line}\n")


@pytest.mark.parametrize("text", [INSTALLER, NUMPY])
def test_packages_and_what_installs_them_come_together(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="or neither"):
        check_lock(text)


def test_beside_condas_packages_others_have_hashes_too() -> None:
    with pytest.raises(ConfigInvalid, match="hashes of some packages only"):
        check_lock(f"{INSTALLER}\n{NUMPY}\nacme==1.0\n")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "etc/conda/activate.d").mkdir(parents=True)
    (tmp_path / "etc/conda/env_vars.d").mkdir()
    return tmp_path


def test_activation_sets_what_packages_and_the_environment_say(prefix: Path) -> None:
    scripts = prefix / "etc/conda/activate.d"
    (scripts / "a.sh").write_text(
        "echo much\nexport FIRST=a LINES=$'x\\ny'\nexport PATH=/own:$PATH\n"
        "cd /; false; function f { :; }; export -f f\nexport GIVEN=${FROM_STATE}-${CONDA_PREFIX}\n"
    )
    (scripts / "b.sh").write_text("export FIRST=${FIRST}b\nunset GONE\n")
    (scripts / "c.fish").write_text("exit 1\n")
    (prefix / "etc/conda/env_vars.d/a.json").write_text('{"OF_PACKAGE": "1", "BOTH": "package"}')
    (prefix / "conda-meta/state").write_text(
        '{"version": 1, "env_vars": {"FROM_STATE": "s", "BOTH": "state", "NONE": "***unset***", '
        '"no name": "x"}}'
    )
    found = activated_environ(prefix, {"PATH": "/bin", "GONE": "1", "HOME": "/home"})
    bash_only = found.keys() - {
        *("PATH", "HOME", "FIRST", "LINES", "GIVEN", "OF_PACKAGE", "BOTH", "FROM_STATE"),
        *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL"),
    }
    assert not bash_only
    assert found["PATH"] == f"/own:{prefix}/bin:/bin"
    assert found["FIRST"] == "ab"
    assert found["LINES"] == "x\ny"
    assert found["GIVEN"] == f"s-{prefix}"
    assert found["BOTH"] == "state"
    assert found["CONDA_PREFIX"] == str(prefix)


@pytest.mark.parametrize("script", ["echo why; exit 3", "echo why; exit 0", "echo why; kill -9 $$"])
def test_a_script_that_ends_the_shell_is_told(prefix: Path, script: str) -> None:
    (prefix / "etc/conda/activate.d/a.sh").write_text(script)
    with pytest.raises(EnvironmentFailed, match=r"(?s)why.*given: a.sh"):
        activated_environ(prefix, dict(os.environ))


@pytest.mark.parametrize("content", ["{", "[]", '{"env_vars": 1}'])
def test_variables_that_can_not_be_read_are_told(prefix: Path, content: str) -> None:
    (prefix / "conda-meta/state").write_text(content)
    with pytest.raises(EnvironmentFailed, match="conda-meta/state"):
        activated_environ(prefix, {})
