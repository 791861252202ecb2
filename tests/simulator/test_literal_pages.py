"""README and First steps work as they are written, on the embedded AWS: in a new folder and a new
home, with terradask installed from an index, and hosts that build what is installed there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from terradask_host.agent.uv import find_uv

from ..literal_pages import run_as_a_person, script_of, snippets
from ..package_index import publish, serving
from ..quick_provider import QuickProvider
from .own_index import list_installed, names_with_dependencies, versions_for_hosts

ROOT = Path(__file__).parents[2]
FIRST_STEPS = ROOT / "docs/first-steps.md"
README = ROOT / "README.md"
START = 'eval "$(terradask sim start --bare)"'
#: What can't be typed here, with the reason.
UNUSABLE_OF_README = {
    "make demo": "a target of its own in CI",
    "make test": "this is it",
    "uvx --from 'terradask[demo]' terradask demo": "test_demo_alone.py runs it",
}
UNUSABLE = {
    **UNUSABLE_OF_README,
    "aws resourcegroupstaggingapi get-resources --tag-filters "
    "Key=terradask:workspace,Values=research": "the tests don't need AWS's command line",
}
#: Before there is a network.
ENDS_WITH = {
    "terradask doctor": 3,
    "terradask doctor        # checks Python, synthesis, Terraform, provider, credentials, region; "
    "names the fix for each": 3,
}

#: Hosts of the embedded AWS run in its own environment unless it is told otherwise, and so package
#: sync is off there unless it is asked for.
AS_ON_AWS = """
python -c '
from terradask_simulator import Switches
from terradask_simulator.lifecycle import status
Switches(status()).build_environments()
'
export TERRADASK_CLUSTER__PACKAGE_SYNC=true
"""
#: A package that Dask doesn't need, and the module of a newcomer's that needs it.
UNITS = "FACTOR = 2\n"
HELPER = """\
import acme_units


def double(number: int) -> str:
    return f"{acme_units.FACTOR * number} by {acme_units.__file__}"
"""
#: Of these, which nothing here imports, the metadata alone is installed.
UNUSED = {"cfn-lint", "mpmath", "networkx", "pandas", "pyarrow", "sympy"}

pytestmark = [pytest.mark.simulator, pytest.mark.life, pytest.mark.timeout(1200)]


@dataclass(frozen=True)
class Newcomer:
    """Who has a home and an environment, and has used neither yet."""

    home: Path
    environ: dict[str, str]


@pytest.fixture(scope="module")
def needed() -> frozenset[str]:
    """What terradask and the simulator need."""
    return names_with_dependencies("terradask[demo]") - {"terradask", "terradask-simulator"}


@pytest.fixture(scope="module")
def index(needed: frozenset[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index for hosts: of what they don't import, the metadata alone is in it, or they would
    unpack a quarter of a million files.
    """
    root = tmp_path_factory.mktemp("index")
    list_installed(root, needed, needed - versions_for_hosts().keys())
    publish(root, "acme-units", "1.0", UNITS)
    with serving(root) as url:
        yield url


@pytest.fixture(scope="module")
def wheels(needed: frozenset[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of terradask and the simulator, and of what they need."""
    root = tmp_path_factory.mktemp("wheels")
    list_installed(root, needed, UNUSED)
    publish(root, "acme-units", "1.0", UNITS)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "files")]
    for project in (ROOT, ROOT / "simulator"):
        subprocess.run(build, cwd=project, check=True, capture_output=True)
    return root / "files"


@pytest.fixture(scope="module")
def newcomer(
    index: str,
    wheels: Path,
    tmp_path_factory: pytest.TempPathFactory,
    quick_provider: QuickProvider,
) -> Newcomer:
    """Who has installed terradask, and a package."""
    home = tmp_path_factory.mktemp("home")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "PYTHON", "UV_", "VIRTUAL_ENV", "XDG_"))
    }
    environ = kept | {
        **quick_provider.environ,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(home / "venv/bin"), os.environ["PATH"]]),
        # The test's index has no packages for the environment of CDKTF.
        "TERRADASK_SYNTHESIS_PYTHON": sys.executable,
        "PIP_INDEX_URL": index,
        "TERM": "dumb",
        "UV_DEFAULT_INDEX": index,
        "UV_PYTHON_PREFERENCE": "only-system",
    }
    python = str(home / "venv/bin/python")
    of_folder = ["--no-index", f"--find-links={wheels}"]
    # By uv, which takes a fifth of pip's time; the pages' pip then finds it installed.
    for command in (
        ["venv", f"--python={sys.executable}", str(home / "venv")],
        ["pip", "install", f"--python={python}", *of_folder, "terradask[demo]", "acme-units"],
    ):
        subprocess.run([find_uv(), "--quiet", *command], env=environ, cwd=home, check=True)
    return Newcomer(home, environ)


@pytest.fixture
def folder(tmp_path: Path, newcomer: Newcomer) -> Iterator[Path]:
    """A new folder with the newcomer's module; an embedded AWS ends with the test."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "helper.py").write_text(HELPER)
    yield folder
    stop = [str(newcomer.home / "venv/bin/terradask"), "sim", "stop"]
    subprocess.run(stop, env=newcomer.environ, cwd=folder, check=False, capture_output=True)


def _as_on_aws(script: str) -> str:
    """Let hosts build their environments, from when there is an embedded AWS."""
    assert script.count(f"{START}\n") == 1
    return script.replace(f"{START}\n", f"{START}\n{AS_ON_AWS}")


def test_first_steps(newcomer: Newcomer, folder: Path) -> None:
    script, left_out = script_of(FIRST_STEPS, unusable=UNUSABLE, ends_with=ENDS_WITH)
    assert script.index(START) < script.index("terradask init")
    assert left_out == UNUSABLE.keys() - UNUSABLE_OF_README.keys()
    code, output = run_as_a_person(
        _as_on_aws(script) + "terradask sim stop\n",
        folder=folder,
        environ=newcomer.environ,
        limit_seconds=1000,
    )
    print(output)
    assert code == 0
    assert "network: destroyed" in output
    # By a package of theirs, and a module that lay beside the script, on a host of its own.
    assert re.search(r"^42 by \S+/var/lib/terradask/environments/\S+/acme_units\.py", output, re.M)
    # Nothing ran when it was stopped.
    assert "ended with it" not in output


def test_the_readme(newcomer: Newcomer, folder: Path) -> None:
    python = "step_0.py"
    script, left_out = script_of(README, unusable=UNUSABLE, ends_with=ENDS_WITH)
    assert left_out == UNUSABLE_OF_README.keys()
    # "Then use Cluster(...) as above."
    first = f"python {python}\n"
    assert script.count(first) == 1
    moved = START + "\n" + script.replace(first, "") + first + "terradask sim stop\n"
    code, output = run_as_a_person(
        _as_on_aws(moved), folder=folder, environ=newcomer.environ, limit_seconds=1000
    )
    print(output)
    assert code == 0
    assert "\n6\r\n" in output
    assert "hosts get" in output
    assert "ended with it" not in output


def test_their_python_is_typed_as_a_user_checks_it(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "acme_units.py").write_text(UNITS)
    files = []
    for page in (README, FIRST_STEPS):
        for number, text in enumerate(snippets(page)):
            path = tmp_path / f"{page.stem.replace('-', '_').lower()}_{number}.py"
            path.write_text(text)
            files.append(path.name)
    assert len(files) == 4
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
