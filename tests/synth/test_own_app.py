"""The app on the page about constructs, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from terradask_stacks.lock import LOCK_NAME, dump_lock

from .conftest import lock_file

PAGE = Path(__file__).parents[2] / "docs/constructs.md"


def test_the_pages_app_has_a_cluster_beside_an_own_bucket(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    answers = lock_file()
    (tmp_path / "terradask.toml").write_text("[clusters.nightly]\nmax_workers = 7\n")
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
