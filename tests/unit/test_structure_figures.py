"""The figures of the repository's structure count what they say."""

from __future__ import annotations

from pathlib import Path

from .source_tree import planted
from .structure_figures import Size, deepest, patched_private_names, report, size


def test_code_is_neither_blank_nor_comment_nor_docstring(tmp_path: Path) -> None:
    source = (
        '"""Say.\n\nMore."""\n\nx = """a\nb"""  # c\n# d\ndef f():\n    """One."""\n    '
        "import os, sys\n    import re\n"
    )
    module = planted(tmp_path, {"cluster/terradask/x.py": source}).modules["terradask.x"]
    assert size(module) == Size(files=1, lines=11, code=5, docstrings=3, imports_in_functions=2)


def test_private_names_that_tests_set_are_found(tmp_path: Path) -> None:
    source = (
        'm.setattr(a.b, "_x", 1)\nm.setattr("a._b.c", 1)\nm.setattr("a.b._c", '
        '1)\nm.setattr(a, "x", 1)\nsetattr(a, "_x", 1)\n'
    )
    tree = planted(tmp_path, {"tests/unit/test_x.py": source})
    assert patched_private_names(tree.beside("tests")) == [
        "tests/unit/test_x.py:1: a.b._x",
        "tests/unit/test_x.py:3: a.b._c",
    ]


def test_the_report_counts(tmp_path: Path) -> None:
    files = {
        "cluster/terradask/a.py": "from .b import B\nclass A(B): ...\n",
        "cluster/terradask/b.py": "from . import a\nclass B: ...\n",
    }
    tree = planted(tmp_path, files)
    lines = list(report(tree))
    assert deepest(tree) == 2
    assert lines[-6:] == [
        "packages of terradask without a place: 2",
        "imports against the order: 0",
        "circles of files: 1",
        "depth of own classes: 2",
        "files over 600 lines: 0",
        "private names that tests set: 0",
    ]
