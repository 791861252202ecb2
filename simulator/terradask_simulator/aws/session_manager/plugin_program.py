"""The embedded AWS's ``session-manager-plugin`` as a program that can be found in ``PATH``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from terradask_simulator.aws.session_manager import plugin as session_plugin

__all__ = ["plugin_folder", "write_plugin"]


def plugin_folder(state_dir: Path) -> Path:
    """Return the folder that has to be in ``PATH`` for sessions with this embedded AWS."""
    return state_dir / "bin"


def write_plugin(state_dir: Path) -> None:
    """Put this embedded AWS's ``session-manager-plugin`` where `plugin_folder` says."""
    program = plugin_folder(state_dir) / "session-manager-plugin"
    program.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-I", "-S", str(session_plugin.__file__)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
