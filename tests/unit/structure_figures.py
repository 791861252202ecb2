"""What breaks the rules of structure, and how large the code is, in figures: `python -m
tests.unit.structure_figures`.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from . import structure_rules
from .source_tree import BESIDES, ROOTS, Module, Tree, dotted, repository

RULES = (
    structure_rules.roots,
    structure_rules.framework,
    structure_rules.resources,
    structure_rules.host_alone,
    structure_rules.simulator_alone,
    structure_rules.aws_half,
    structure_rules.order,
    structure_rules.circles,
    structure_rules.depth,
    structure_rules.length,
)
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


@dataclass(frozen=True)
class Size:
    """How much there is of some files. Code is neither comment nor docstring; of both, blank lines
    are not counted.
    """

    files: int = 0
    lines: int = 0
    code: int = 0
    docstrings: int = 0
    imports_in_functions: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.files + other.files,
            self.lines + other.lines,
            self.code + other.code,
            self.docstrings + other.docstrings,
            self.imports_in_functions + other.imports_in_functions,
        )


def size(module: Module) -> Size:
    """Return one file's size."""
    docstrings = set(_docstring_lines(module.syntax))
    tokens = tokenize.generate_tokens(io.StringIO(module.source).readline)
    code = {
        line
        for token in tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    inside = {one.line for one in module.imports if one.in_function}
    lines = module.source.splitlines()
    filled = [line for line in docstrings if lines[line - 1].strip()]
    return Size(1, len(lines), len(code - docstrings), len(filled), len(inside))


def patched_private_names(modules: Iterable[Module]) -> list[str]:
    """Return where tests set private names: `setattr(object, "_name", …)` or
    `setattr("a.module._name", …)`.
    """
    calls = (
        (module, node)
        for module in modules
        for node in ast.walk(module.syntax)
        if isinstance(node, ast.Call)
    )
    return [
        f"{module.where}:{node.lineno}: {name}"
        for module, node in calls
        for name in _private_name(node)
    ]


def deepest(tree: Tree) -> int:
    """Return how many own classes stand in the longest line of them."""
    return max(
        len(structure_rules.lineage(tree, name)) for name in structure_rules.own_classes(tree)
    )


def report(tree: Tree) -> Iterator[str]:
    """Return the lines of the report."""
    tests = [*tree.beside("tests"), *tree.beside("simulator/tests")]
    broken = {rule.__name__: rule(tree) for rule in RULES}
    for name, found in broken.items():
        yield f"{name}: {len(found)}"
        yield from (f"  {line}" for line in found)
    yield ""
    yield f"{'':24}{'files':>8}{'lines':>8}{'code':>8}{'docstr.':>8}{'imports in functions':>22}"
    sizes = {package: _total(tree.below(package)) for package in ROOTS}
    yield from (_row(package, one) for package, one in sizes.items())
    yield _row("all five roots", sum(sizes.values(), Size()))
    yield from (_row(folder, _total(tree.beside(folder))) for folder in BESIDES)
    yield ""
    yield (
        "packages of terradask without a place: "
        f"{sum('has no place' in line for line in broken['order'])}"
    )
    yield f"imports against the order: {sum(' imports ' in line for line in broken['order'])}"
    yield f"circles of files: {len(broken['circles'])}"
    yield f"depth of own classes: {deepest(tree)}"
    yield f"files over {structure_rules.MAX_LINES} lines: {len(broken['length'])}"
    yield f"private names that tests set: {len(patched_private_names(tests))}"


def _private_name(node: ast.Call) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(path)), *_]):
            name = path.rpartition(".")[2]
        case ast.Call(
            func=ast.Attribute(attr="setattr"), args=[owner, ast.Constant(value=str(name)), *_]
        ):
            path = f"{dotted(owner) or '…'}.{name}"
        case _:
            return []
    return [path] if name.startswith("_") else []


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
                    yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _total(modules: Iterable[Module]) -> Size:
    return sum(map(size, modules), Size())


def _row(name: str, one: Size) -> str:
    sizes = f"{one.files:>8}{one.lines:>8}{one.code:>8}{one.docstrings:>8}"
    return f"{name:24}{sizes}{one.imports_in_functions:>22}"


if __name__ == "__main__":
    print("\n".join(report(repository())))
