"""The programs of `requirements/`, which no package has, as modules."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


@cache
def program(name: str) -> ModuleType:
    """Load one by its file's name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"requirements/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module
