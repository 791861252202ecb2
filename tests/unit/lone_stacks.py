"""Stacks without a workspace: in a folder, with a state that is said to be there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from terradask._terraform.state.model import StateVersion
from terradask._workspace.stack import Stack


def alone(
    name: str,
    folder: Path,
    version: Callable[[str], StateVersion] = lambda stack: StateVersion(),
) -> Stack:
    context: Any = SimpleNamespace(
        aws=SimpleNamespace(variables=dict),
        folder=lambda stack: folder / stack,
        plans=folder,
        progress=lambda event: None,
        message=lambda text: None,
        settings=SimpleNamespace(state=SimpleNamespace(lock_timeout_seconds=60)),
    )
    states: Any = SimpleNamespace(
        check=lambda cluster: SimpleNamespace(
            stored=lambda program: None, planned=lambda path, program: None
        ),
        version=version,
        break_lock=lambda stack, lock, proof: None,
        find_lock=lambda stack: None,
        give_back=lambda stack, ended: False,
    )
    return Stack(name, context, states)
