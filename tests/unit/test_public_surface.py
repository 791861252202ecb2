"""What users can rely on changes only on purpose."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from ..golden import check_golden
from .public_surface import module_lines

HERE = Path(__file__).parent
GOLDEN = HERE / "data" / "public_surface.txt"

_NUMBERS = count()

_MODULE = """
from dataclasses import dataclass, field
from terradask.errors import ClusterError, TerradaskError

__all__ = ["A", "Lost", "Row", "find"]

def find(name: str, /, zone: str | None = None, *, limit: int = 3) -> list[str]: ...

class _Base:
    def look(self) -> None: ...

class A(_Base):
    size: int = 0
    def __init__(self, name: str) -> None:
        self.name = name
    def __enter__(self) -> "A": ...
    def wait(self, timeout: float = 1.0) -> bool: ...
    async def read(self) -> bytes: ...
    @property
    def state(self) -> str: ...
    @classmethod
    def load(cls, path: str) -> "A": ...

@dataclass(frozen=True)
class Row:
    key: str
    count: int = 0
    facts: dict = field(default_factory=dict)

class Lost(ClusterError):
    exit_code = 7
    def __init__(self, cluster: str, job: str) -> None:
        super().__init__("lost", cluster=cluster)
        self.job = job
"""


@pytest.fixture(scope="module")
def surface() -> str:
    return _surface()


def _surface(*arguments: str) -> str:
    command = [sys.executable, "-P", "-X", "utf8", str(HERE / "public_surface.py"), *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def test_the_public_surface_is_the_golden_one(surface: str) -> None:
    check_golden(GOLDEN, surface)


def test_the_simulators_surface_is_the_golden_one() -> None:
    check_golden(GOLDEN.with_name("simulator_surface.txt"), _surface("simulator"))


def test_it_names_no_private_module_and_no_memory_address(surface: str) -> None:
    assert re.findall(r"terradask[\w.]*\._[a-z]\w*", surface) == []
    assert " at 0x" not in surface


def test_it_can_be_read_in_a_pull_request(surface: str) -> None:
    lines = surface.splitlines()
    assert len(lines) < 800
    assert max(map(len, lines)) <= 120
    # Both take all the arguments of a cluster; they stand once.
    assert surface.count(" worker_cpu: ") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"find"]', "]"),  # a name of __all__
        ("find", "search"),
        ("zone: str | None", "zone: str"),
        ("zone: str | None = None", "zone: str | None"),
        ("zone", "area"),
        ("limit: int = 3", "limit: int = 4"),
        ("*, limit", "limit"),
        ("name: str, /,", "name: str,"),
        ("list[str]: ...", "tuple[str]: ..."),
        ("def look", "def _look"),  # inherited from a private base
        ("size: int = 0", "_size: int = 0"),
        ("self.name", "self._name"),
        ("def __enter__", "def __exit__"),
        ("timeout: float", "seconds: float"),
        ("async def read", "def read"),
        ("    @property\n", ""),
        ("@classmethod\n    def load(cls, ", "def load(self, "),
        ("count: int = 0", "count: int = 1"),
        ("key: str", "name: str"),
        ("default_factory=dict", "default_factory=list"),
        ("Lost(ClusterError)", "Lost(TerradaskError)"),
        ("exit_code = 7", "exit_code = 6"),
        ("cluster: str, job: str", "cluster: str, job: int"),
        ("self.job", "self.task"),
    ],
)
def test_a_planted_change_shows(old: str, new: str, tmp_path: Path) -> None:
    assert old in _MODULE
    kept, changed = _lines(_MODULE, tmp_path), _lines(_MODULE.replace(old, new), tmp_path)
    assert kept != changed
    assert len(set(kept) ^ set(changed)) <= 4


def _lines(source: str, folder: Path) -> list[str]:
    """Return the surface of a module with this source."""
    path = folder / f"planted_{next(_NUMBERS)}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"terradask.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for a class's module
    try:
        spec.loader.exec_module(module)
        return module_lines(module)
    finally:
        del sys.modules[spec.name]
