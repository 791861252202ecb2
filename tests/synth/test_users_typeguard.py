"""A user's environment with a typeguard that CDKTF's bindings exclude: the golden stacks come from
terradask's own environment for CDKTF, which uv makes by hash. Both need a package index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from terradask_host.agent.uv import find_uv

from ..light_environment import ROOT, built_wheels, light_variables, only_programs, run_uv
from .conftest import SynthText
from .golden_settings import CLUSTERS, NETWORKS
from .test_other_python import GOLDEN, inputs

pytestmark = [pytest.mark.life, pytest.mark.timeout(1200)]

#: What a data scientist has, and the resolver once went back to a jsii of last year for.
USERS = ("typeguard>=4.6", "tyro", "inflect", "pandas")

#: Synthesises the stacks of a file, in the environment that terradask makes for it.
RENDER = """
import importlib.util, json, sys
from importlib.metadata import version
from pathlib import Path
import inflect, tyro, typeguard
from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask_stacks.inputs import inputs_in
from terradask_stacks.rendering import OtherProcess

assert importlib.util.find_spec("cdktf") is None
own = FrameworkEnvironment.here()
kinds = [own.kind]
other = OtherProcess(own.get())
kinds.append(own.kind)
texts = [
    other.render([inputs_in(document)])[document["stack"]]
    for document in json.loads(Path(sys.argv[1]).read_text())
]
print(json.dumps({"typeguard": version("typeguard"), "kinds": kinds, "texts": texts}))
"""


def test_the_golden_stacks_beside_a_new_typeguard(synth_text: SynthText, tmp_path: Path) -> None:
    built_wheels(tmp_path / "wheels", ROOT)
    (wheel,) = (tmp_path / "wheels").iterdir()
    run_uv("venv", "--quiet", f"--python={sys.executable}", str(tmp_path / "venv"))
    python = tmp_path / "venv/bin/python"
    run_uv("pip", "install", "--quiet", f"--python={python}", str(wheel), *USERS)
    documents = [
        inputs(stack, **(NETWORKS if stack == "network" else CLUSTERS)[name]).as_document()
        for stack, name in GOLDEN
    ]
    (tmp_path / "stacks.json").write_text(json.dumps(documents))
    environ = light_variables(python, dict(os.environ)) | {"XDG_CACHE_HOME": str(tmp_path / "user")}
    environ["PATH"] += f"{os.pathsep}{only_programs(tmp_path / 'bin', find_uv())}"

    done = subprocess.run(
        [python, "-W", "error", "-c", RENDER, str(tmp_path / "stacks.json")],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
    found = json.loads(done.stdout)
    assert tuple(map(int, found["typeguard"].split(".")[:2])) >= (4, 6)
    assert found["kinds"] == ["not made", "made"]
    assert found["texts"] == [
        synth_text(stack, **(NETWORKS if stack == "network" else CLUSTERS)[name])
        for stack, name in GOLDEN
    ]
