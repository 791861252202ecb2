"""A data scientist's environment on hosts that build their own: a ``uv.lock``, an editable package,
one of a git repository, a private index that demands a token, and a local module.

The client is a process of its own in the environment that ``uv sync`` has made. All is imported on
the workers in the versions of there, and the token is found by no search.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from terradask_host.agent.uv import find_uv
from terradask_simulator import Simulator

from ..package_index import publish, serving
from ..source_packages import source_folder
from ..waiting import PROCESS_SECONDS
from .own_index import list_installed, versions_for_hosts
from .planted_secrets import plant_everywhere
from .secret_search import Secrets, search

pytestmark = [pytest.mark.simulator, pytest.mark.life]

TOKEN = f"index-{uuid.uuid4().hex}"
#: With which packages are built from their sources.
BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers")

#: Prints what there is here and on workers, and keeps the cluster until its input ends.
CLIENT = """
import importlib, importlib.metadata, json, re, sys
import steps
from terradask import Cluster

names = json.loads(sys.argv[1])

def found():
    modules = {"pillow": "PIL", "python-dateutil": "dateutil", "pyyaml": "yaml"}
    def versions(name):
        __import__(modules.get(name, name.replace("-", "_")))
        return importlib.metadata.version(name)
    return {name: versions(name) for name in names}

with Cluster(
    "users", n_workers=1, software="uv.lock", local_modules=True, wait_for_workers=True,
    scheduler_options={"dashboard": False},
) as cluster, cluster.get_client() as client:
    there = client.run(found)
    places = client.run(lambda: __import__("secret_tools").__file__)
    print(json.dumps({
        "here": found(),
        "hosts": list(there.values()),
        "places": list(places.values()),
        "said": client.submit(steps.words, ["acme_folder", "acme_git", "secret_tools"]).result(60),
    }), flush=True)
    sys.stdin.read()
"""

#: Looks at processes as another user of the machine, if it can become one, until its input ends.
WATCH = """
import glob, json, os, sys, threading
token = sys.stdin.readline().strip().encode()
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
    names = ("cmdline", "environ")
else:
    names = ("cmdline",)
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
found, installers = set(), 0
while not over.wait(0.02):
    for place in [p for name in names for p in glob.glob(f"/proc/[0-9]*/{name}")]:
        try:
            with open(place, "rb") as file:
                content = file.read()
        except OSError:
            continue
        installers += place.endswith("cmdline") and b"\\0pip\\0install\\0" in content
        if token in content:
            found.add(place.rpartition("/")[2])
print(json.dumps([sorted(found), installers]))
"""


@dataclass(frozen=True)
class User:
    """What a user has: a project, its environment, and variables."""

    project: Path
    python: Path
    environ: dict[str, str]
    #: Folders in which the token must not be left.
    folders: tuple[Path, ...]


@contextlib.contextmanager
def project(folder: Path, home: Path) -> Iterator[User]:
    """Make a project as a team has it, lock it, and install what is locked."""
    list_installed(folder / "public", [*(own := versions_for_hosts()), *BUILD])
    # The build asks for it, and imports it only for folders without `dev-mode-dirs`.
    publish(folder / "public", "editables", "0.5")
    publish(folder / "private", "secret-tools", "2.0", "WORD = 'private'\n")
    for name, word in (("acme-folder", "edited"), ("acme-git", "committed")):
        source = source_folder(folder / "sources", name)
        (source / f"{name.replace('-', '_')}.py").write_text(f"WORD = {word!r}\n")
    git = ["git", "-C", str(folder / "sources/acme-git"), "-c", "user.name=A", "-c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, "user.email=a@example.com", *command], check=True)
    work = folder / "work"
    work.mkdir()
    (work / "steps.py").write_text(
        "def words(names):\n    return [__import__(name).WORD for name in names]\n"
    )
    pins = [f"{name}=={version}" for name, version in own.items()]
    (folder / "netrc").write_text(f"machine 127.0.0.2 login me password {TOKEN}\n")
    with (
        serving(folder / "public") as public,
        serving(folder / "private", user=f"me:{TOKEN}", address="127.0.0.2") as private,
    ):
        wanted = [*pins, "acme-folder", "acme-git", "secret-tools"]
        (work / "pyproject.toml").write_text(
            '[project]\nname = "work"\nversion = "1"\nrequires-python = ">=3.11"\n'
            f"dependencies = {json.dumps(wanted)}\n[tool.uv.sources]\n"
            f'acme-folder = {{ path = "{folder}/sources/acme-folder", editable = true }}\n'
            f'acme-git = {{ git = "{(folder / "sources/acme-git").as_uri()}" }}\n'
            'secret-tools = { index = "team" }\n'
            f'[[tool.uv.index]]\nname = "team"\nurl = "{private}"\nexplicit = true\n'
            f'[[tool.uv.index]]\nname = "public"\nurl = "{public}"\ndefault = true\n'
        )
        yield _installed(work, home, folder / "netrc")


def _installed(work: Path, home: Path, netrc: Path) -> User:
    """Have uv lock the project and install it; terradask comes from this environment."""
    for name in ("home", "temporary"):
        (home / name).mkdir(parents=True)
    kept = {name: each for name, each in os.environ.items() if not name.startswith("UV_")}
    environ = kept | {
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "temporary"),
        "NETRC": str(netrc),
        "UV_CACHE_DIR": str(home / "cache"),
        "UV_PYTHON_PREFERENCE": "only-system",
        "PATH": f"{Path(find_uv()).parent}:{os.environ['PATH']}",
    }
    for command in (["lock"], ["venv", f"--python={sys.executable}"], ["sync", "--frozen"]):
        done = subprocess.run(
            [find_uv(), *command, "--quiet"],
            cwd=work,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (site,) = (work / ".venv").glob("lib/python*/site-packages")
    here = sysconfig.get_path("purelib")
    (site / "terradask.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return User(work, work / ".venv/bin/python", environ, (work, home))


@contextlib.contextmanager
def watched() -> Iterator[list[object]]:
    """Watch the machine's processes meanwhile; then the list has where the token was seen, and how
    often an installer.
    """
    found: list[object] = []
    with subprocess.Popen(
        [sys.executable, "-c", WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(f"{TOKEN}\n")
        process.stdin.flush()
        yield found
        said, _ = process.communicate(timeout=PROCESS_SECONDS)
        found += json.loads(said)


def test_everything_is_there_and_the_token_nowhere(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    secrets = Secrets({"token": TOKEN})
    names = [*versions_for_hosts(), "acme-folder", "acme-git", "secret-tools"]
    with project(tmp_path / "team", tmp_path / "user") as user, sim.build_environments():
        with (
            watched() as seen,
            (tmp_path / "stderr").open("w") as errors,
            subprocess.Popen(
                [user.python, "-W", "always", "-c", CLIENT, json.dumps(names)],
                cwd=user.project,
                env=user.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            line = process.stdout.readline()
            said = (tmp_path / "stderr").read_text()
            assert line, said
            living = search(secrets, sim, sim.state_dir, *user.folders)
            process.communicate(timeout=PROCESS_SECONDS)
        assert process.returncode == 0, (tmp_path / "stderr").read_text()
        found = json.loads(line)
        assert found["hosts"] == [found["here"]]
        assert found["here"].keys() == set(names)
        assert found["said"] == ["edited", "committed", "private"]
        assert all("/var/lib/terradask/environments/" in place for place in found["places"])
        assert "arning" not in said

        assert living == []
        assert search(secrets, sim, sim.state_dir, *user.folders) == []
        assert _in_packages(secrets, sim.state_dir) == []
        places, installers = seen
        assert places == []
        assert isinstance(installers, int)
        assert installers > 0

        # Both can find it: another user sees a command line, and no environment.
        with watched() as seen, plant_everywhere(sim, "x", TOKEN):
            left = {place for place, _ in search(secrets, sim)}
        assert seen[0] == ["cmdline"]
        assert "log x" in left


def _in_packages(secrets: Secrets, folder: Path) -> list[tuple[str, str]]:
    """Search what installers write beside packages, which the search leaves out."""
    return [
        found
        for path in folder.rglob("*.dist-info/*")
        if path.is_file()
        for found in secrets.find(str(path), path.read_bytes())
    ]
