"""Deploys the network baseline on the embedded AWS, with the command that a user would type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from terradask_simulator.errors import BaselineFailed

__all__ = ["deploy_baseline"]


def deploy_baseline(environ: Mapping[str, str]) -> None:
    """Run ``terradask apply network --yes``."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "terradask", "apply", "network", "--yes"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.decode(errors="replace").splitlines()[-25:])
        raise BaselineFailed(
            "The network baseline could not be deployed on the embedded AWS",
            given=f"`terradask apply network --yes` ended with code {done.returncode}:\n{tail}",
            advice=(
                "start without the baseline and run the command by hand: `terradask sim run "
                "--bare -- ...`"
            ),
        )
