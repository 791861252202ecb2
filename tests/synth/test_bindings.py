"""The provider's bindings load what is used of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

COUNTER = """
const { appendFileSync } = require("node:fs");
process.on("exit", () => {
  const bindings = Object.keys(require.cache).filter((file) => file.includes("provider-aws"));
  appendFileSync("loaded", bindings.length + "\\n");
});
"""

SYNTHESIS = """
import os
from terradask_modules.aws import App, AwsProvider, TerraformStack, Vpc
app = App(outdir="out")
one = TerraformStack(app, "one")
AwsProvider(one, "aws", region="us-east-1")
Vpc(one, "vpc", cidr_block="10.0.0.0/16")
app.synth()
print(os.environ["NODE_OPTIONS"])
"""


def loaded_for_a_vpc(
    python: Path, folder: Path, environ: Mapping[str, str], script: str = SYNTHESIS
) -> int:
    """Synthesise a VPC in a Python; return how many modules of the bindings Node loaded."""
    (folder / "counter.js").write_text(COUNTER)
    options = "--require ./counter.js"
    done = subprocess.run(
        [python, "-c", script],
        cwd=folder,
        env={**os.environ, **environ, "NODE_OPTIONS": options},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == options
    assert "10.0.0.0/16" in (folder / "out/stacks/one/cdk.tf.json").read_text()
    return max(map(int, (folder / "loaded").read_text().split()))


def test_node_loads_few_of_the_bindings_modules_and_keeps_its_options(tmp_path: Path) -> None:
    # The index and what belongs to the VPC: of all modules there are 2,100.
    assert 2 <= loaded_for_a_vpc(Path(sys.executable), tmp_path, {}) < 50


INTERRUPTED = """
import os, signal, time
from terradask_modules.aws import App, TerraformStack
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
    os.killpg(0, number)
    time.sleep(0.3)
app = App(outdir="out")
TerraformStack(app, "one")
app.synth()
"""


def test_node_outlives_what_interrupts_its_process_group(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/stacks/one/cdk.tf.json").is_file()


EARLY = """
import os
import cdktf
from terradask_modules.aws import AwsProvider, Vpc
app = cdktf.App(outdir="out")
one = cdktf.TerraformStack(app, "one")
AwsProvider(one, "aws", region="us-east-1")
Vpc(one, "vpc", cidr_block="10.0.0.0/16")
app.synth()
print(os.environ["NODE_OPTIONS"])
"""


def test_an_app_that_imports_cdktf_first_loads_as_few(tmp_path: Path) -> None:
    found = loaded_for_a_vpc(Path(sys.executable), tmp_path, {}, EARLY)
    assert 2 <= found < 50


@pytest.mark.life
def test_an_app_that_has_made_objects_already_keeps_its_node(tmp_path: Path) -> None:
    made = EARLY.replace("import cdktf\n", "import cdktf\napp = cdktf.App(outdir='out')\n", 1)
    script = made.replace('app = cdktf.App(outdir="out")\n', "", 1)
    assert script.count("cdktf.App") == 1
    assert loaded_for_a_vpc(Path(sys.executable), tmp_path, {}, script) > 1000
