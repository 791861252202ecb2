"""Python that runs in a process of its own."""

import subprocess
import sys

from ..waiting import PROCESS_SECONDS


def run_python(code, timeout=PROCESS_SECONDS, **kwargs):
    """Run code in another process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        **kwargs,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
