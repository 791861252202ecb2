"""The example of an own app, as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from terradask_stacks.lock import LOCK_NAME, dump_lock

from .conftest import lock_file

EXAMPLE = Path(__file__).parents[2] / "examples/own-app"


def test_the_examples_app_has_a_cluster_beside_an_own_bucket(tmp_path: Path) -> None:
    script = (EXAMPLE / "main.py").read_text()
    answers = lock_file()
    shutil.copy(EXAMPLE / "terradask.toml", tmp_path)
    lock = answers.with_cluster("nightly", answers.clusters["etl"])
    (tmp_path / LOCK_NAME).write_text(dump_lock(lock))
    # An app that has imported its framework before.
    (tmp_path / "main.py").write_text(f"import cdktf\n{script}")
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("TERRADASK_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "cdktf.out/stacks/nightly/cdk.tf.json").read_text())
    assert found["resource"]["aws_s3_bucket"]["results"]["bucket"] == "nightly-results"
    groups = found["resource"]["aws_autoscaling_group"]
    assert groups["workers"]["max_size"] == 7
