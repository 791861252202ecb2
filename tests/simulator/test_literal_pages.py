"""README and First steps work as they are written, on the embedded AWS."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask_simulator.lifecycle import status, stop_daemon

from ..literal_pages import run_as_a_person, script_of, snippets
from ..quick_provider import QuickProvider

ROOT = Path(__file__).parents[2]
FIRST_STEPS = ROOT / "docs/first-steps.md"
README = ROOT / "README.md"
START = 'eval "$(terradask sim start --bare)"'
#: What can't be typed here, with the reason.
UNUSABLE = {
    "make demo": "a target of its own in CI",
    "make test": "this is it",
    "pip install terradask": "it is installed",
    "aws resourcegroupstaggingapi get-resources --tag-filters "
    "Key=terradask:workspace,Values=research": "the tests don't need AWS's command line",
}
#: Before there is a network.
ENDS_WITH = {
    "terradask doctor": 3,
    "terradask doctor        # checks Python, Node, Terraform, provider, credentials, region; says "
    "the fix for each": 3,
}

pytestmark = [pytest.mark.simulator, pytest.mark.life, pytest.mark.timeout(900)]


@pytest.fixture
def typed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_provider: QuickProvider
) -> Iterator[dict[str, str]]:
    """The variables of a shell in an own folder, whose embedded AWS ends with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    quick_provider.lock(folder)
    environ = {
        **os.environ,
        **quick_provider.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TERM": "dumb",
    }
    yield environ
    if status() is not None:
        stop_daemon()


def test_first_steps(typed_in: dict[str, str], tmp_path: Path) -> None:
    script, left_out = script_of(FIRST_STEPS, unusable=UNUSABLE, ends_with=ENDS_WITH)
    assert script.index(START) < script.index("terradask init")
    assert left_out == UNUSABLE.keys() - {"make demo", "make test"}
    code, output = run_as_a_person(
        script + "terradask sim stop\n",
        folder=tmp_path / "workspace",
        environ=typed_in,
        limit_seconds=800,
    )
    print(output)
    assert code == 0
    assert "network: destroyed" in output
    # Nothing ran when it was stopped.
    assert "ended with it" not in output


def test_the_readme(typed_in: dict[str, str], tmp_path: Path) -> None:
    python = "step_0.py"
    script, left_out = script_of(README, unusable=UNUSABLE, ends_with=ENDS_WITH)
    assert left_out == {"make demo", "make test", "pip install terradask"}
    # "Then use Cluster(...) as above."
    first = f"python {python}\n"
    assert script.count(first) == 1
    moved = START + "\n" + script.replace(first, "") + first + "terradask sim stop\n"
    code, output = run_as_a_person(
        moved, folder=tmp_path / "workspace", environ=typed_in, limit_seconds=800
    )
    print(output)
    assert code == 0
    assert "\n6\r\n" in output
    assert "ended with it" not in output


def test_their_python_is_typed_as_a_user_checks_it(tmp_path: Path) -> None:
    files = []
    for page in (README, FIRST_STEPS):
        for number, text in enumerate(snippets(page)):
            path = tmp_path / f"{page.stem.replace('-', '_').lower()}_{number}.py"
            path.write_text(text)
            files.append(path.name)
    assert len(files) == 3
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
