"""cdktn, in an environment of its own, writes the golden stacks that cdktf writes, and Terraform
accepts them.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask_modules.frameworks import CDKTF, CDKTN, PROVIDER_SOURCE, PROVIDER_VERSION
from terradask_stacks.loading import SYNTHESIS_PYTHON_VARIABLE
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize

from ..quick_provider import QuickProvider
from .conftest import SynthText, lock_file
from .golden_settings import CLUSTERS, NETWORKS
from .test_bindings import loaded_for_a_vpc
from .test_other_python import GOLDEN, inputs

pytestmark = pytest.mark.life

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-cdktn/bin/python"

#: Answers every request of a list in one process: each would take seconds to start Node.
ANSWERS = f"""
import json, sys
sys.path[:0] = {[str(ROOT / root) for root in ("modules", "stacks")]}
from terradask_stacks.rendering import answer
json.dump([answer(request) for request in json.load(sys.stdin)], sys.stdout)
"""


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    if not PYTHON.exists():
        pytest.skip("cdktn is not installed: make cdktn")


@cache
def versions() -> dict[str, str]:
    return dict(FrameworkEnvironment({SYNTHESIS_PYTHON_VARIABLE: str(PYTHON)}).versions())


def given(stack: str, name: str) -> dict[str, Any]:
    return (NETWORKS if stack == "network" else CLUSTERS)[name]


@pytest.fixture(scope="module")
def texts() -> dict[tuple[str, str], str]:
    """Every golden stack as cdktn writes it."""
    requests = [
        {"stacks": [inputs(stack, **given(stack, name)).as_document()], "whose": ""}
        for stack, name in GOLDEN
    ]
    done = subprocess.run(
        [PYTHON, "-I", "-c", ANSWERS],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = zip(GOLDEN, json.loads(done.stdout), strict=True)
    return {(stack, name): answer["texts"][stack] for (stack, name), answer in answers}


def as_cdktf_writes(text: str) -> str:
    """Return a stack of cdktn with the two differences undone: the version in its metadata, and the
    line break in an object without members.
    """
    own, other = versions()["cdktn"], CDKTF.distributions["cdktf"]
    for before, after in (
        (f'      "version": "{own}"\n', f'      "version": "{other}"\n'),
        ('    "outputs": {}\n', '    "outputs": {\n    }\n'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize(("stack", "name"), GOLDEN)
def test_a_golden_stack_has_the_same_bytes_but_for_the_version(
    stack: str, name: str, texts: dict[tuple[str, str], str], synth_text: SynthText
) -> None:
    assert as_cdktf_writes(texts[stack, name]) == synth_text(stack, **given(stack, name))


def test_a_given_python_with_cdktn_synthesises_and_has_a_key_of_its_own(tmp_path: Path) -> None:
    assert versions().keys() == set(CDKTN.names)
    written = {}
    for name, other in (
        ("cdktf", None),
        ("cdktn", FrameworkEnvironment({SYNTHESIS_PYTHON_VARIABLE: str(PYTHON)}).other_python()),
    ):
        folders = synthesize(
            Settings(),
            lock_file(),
            out_dir=tmp_path / name,
            clusters={"etl": ClusterSettings()},
            cache_dir=tmp_path / "cache",
            other_python=other,
        )
        written[name] = {
            stack: (folder / "cdk.tf.json").read_text() for stack, folder in folders.items()
        }
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        version = manifest.pop("version")
        assert all(f'"version": "{version}"' in text for text in written[name].values())
    assert written["cdktf"] != written["cdktn"]
    assert written["cdktf"] == {n: as_cdktf_writes(text) for n, text in written["cdktn"].items()}
    # Both results of both stacks are kept.
    assert len(list((tmp_path / "cache").iterdir())) == 4


def test_node_loads_few_of_the_bindings_modules(tmp_path: Path) -> None:
    own = os.pathsep.join(str(ROOT / root) for root in ("modules", "stacks"))
    assert 2 <= loaded_for_a_vpc(PYTHON, tmp_path, {"PYTHONPATH": own}) < 50


def test_terraform_accepts_every_golden_stack(
    texts: dict[tuple[str, str], str], quick_provider: QuickProvider, tmp_path: Path
) -> None:
    """With the provider that the stacks require, which is older than the bindings."""
    environ = {**os.environ, **quick_provider.environ, "TF_DATA_DIR": str(tmp_path / "data")}
    for number, ((stack, name), text) in enumerate(texts.items()):
        required = json.loads(text)["terraform"]["required_providers"]["aws"]
        assert required == {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}
        folder = tmp_path / f"{stack}-{name}"
        folder.mkdir()
        (folder / "cdk.tf.json").write_text(text)
        quick_provider.lock(folder)
        commands = [["init", "-backend=false", "-input=false"]] if number == 0 else []
        for command in (*commands, ["validate", "-json"]):
            done = subprocess.run(
                ["terraform", *command],
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{stack} {name}: {done.stdout}{done.stderr}"
        assert json.loads(done.stdout)["valid"]
