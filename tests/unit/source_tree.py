"""The repository's Python files as a tree of modules: their imports, classes and size, read without
running them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# Each top package, and the folder that it lies in.
ROOTS = {
    "terradask_modules": "modules",
    "terradask_stacks": "stacks",
    "terradask": "cluster",
    "terradask_host": "host",
    "terradask_simulator": "simulator",
}
# Files that no root has, but that rules of size and style hold for as well.
BESIDES = ("tests", "simulator/tests", "benchmarks")


@dataclass(frozen=True)
class Import:
    """One name that an import statement brings, wherever in the file it stands."""

    line: int
    module: str
    name: str | None
    bound: str
    in_function: bool

    @property
    def dotted(self) -> str:
        """The module, and the name out of it."""
        return f"{self.module}.{self.name}" if self.name else self.module

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Module:
    """One file. `name` is what Python imports it as; a package's is that of its `__init__.py`."""

    name: str
    path: Path
    where: str

    @cached_property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.source, filename=self.where)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(self._imports(self.syntax, in_function=False))

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by qualified name, also those inside functions and classes."""
        return dict(_classes(self.syntax, ""))

    @cached_property
    def names(self) -> dict[str, str]:
        """What names of this module stand for elsewhere: imported ones, and those that are other
        names' aliases.
        """
        # `import a.b` brings `a` alone.
        found = {
            one.bound: one.dotted if one.name or one.bound != one.top else one.top
            for one in self.imports
        }
        for statement in self.syntax.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    alias := dotted(value)
                ) is not None:
                    found.setdefault(name, f"{self.name}.{alias}")
        return found

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring."""
        paragraph = (ast.get_docstring(self.syntax) or "").partition("\n\n")[0]
        return " ".join(paragraph.split())

    def _imports(self, node: ast.AST, *, in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Import(names=names, lineno=line):
                    for one in names:
                        yield Import(
                            line,
                            one.name,
                            None,
                            one.asname or one.name.partition(".")[0],
                            in_function,
                        )
                case ast.ImportFrom(names=names, lineno=line):
                    for one in names:
                        yield Import(
                            line,
                            self._absolute(child),
                            one.name,
                            one.asname or one.name,
                            in_function,
                        )
                # Nothing is imported inside an expression.
                case ast.expr():
                    pass
                case _:
                    inside = in_function or isinstance(
                        child, ast.FunctionDef | ast.AsyncFunctionDef
                    )
                    yield from self._imports(child, in_function=inside)

    def _absolute(self, statement: ast.ImportFrom) -> str:
        if statement.level == 0:
            return statement.module or ""
        parts = self.name.split(".")
        package = parts if self.path.name == "__init__.py" else parts[:-1]
        below = [statement.module] if statement.module else []
        return ".".join([*package[: len(package) - statement.level + 1], *below])


class Tree:
    """The five roots of a repository, and the Python files beside them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        files = [
            (top / folder, path)
            for package, folder in ROOTS.items()
            for path in _python(top / folder / package)
        ]
        modules = (
            Module(_module_name(root, path), path, path.relative_to(top).as_posix())
            for root, path in files
        )
        self.modules: Mapping[str, Module] = {module.name: module for module in modules}

    def below(self, package: str) -> list[Module]:
        """Return a package's modules, and the package itself."""
        return [
            module
            for name, module in self.modules.items()
            if name == package or name.startswith(f"{package}.")
        ]

    def beside(self, folder: str) -> list[Module]:
        """Return the Python files of a folder that is no root."""
        files = (
            (path, path.relative_to(self.top).as_posix()) for path in _python(self.top / folder)
        )
        return [
            Module(where.removesuffix(".py").replace("/", "."), path, where)
            for path, where in files
        ]

    def target(self, one: Import) -> str | None:
        """Return the module of this tree that an import is of; `from a import b` may name a module
        `b`.
        """
        return next((name for name in (one.dotted, one.module) if name in self.modules), None)

    def split(self, name: str) -> tuple[Module, str] | None:
        """Return the module of this tree that a dotted name begins with, and the rest of it."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if (module := self.modules.get(".".join(parts[:end]))) is not None:
                return module, ".".join(parts[end:])
        return None


@cache
def repository() -> Tree:
    """Return this repository's tree, read once."""
    return Tree(REPOSITORY)


def dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` of a name, an attribute or what has been subscripted, such as a
    generic base.
    """
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = dotted(value)
            return f"{before}.{attribute}" if before else None
        case ast.Subscript(value=value):
            return dotted(value)
    return None


def _python(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.rglob("*.py") if "node_modules" not in path.parts)


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        name = (
            getattr(child, "name", None)
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            else None
        )
        inner = f"{prefix}{name}." if name else prefix
        if isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}", child
        yield from _classes(child, inner)


def planted(top: Path, files: Mapping[str, str]) -> Tree:
    """Return a tree of files with these sources, written below a folder."""
    for where, source in files.items():
        path = top / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return Tree(top)
