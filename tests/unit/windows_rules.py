"""What code that runs on Windows must not use, found in the source: names of POSIX alone outside of
a branch for a platform, arguments of processes that Windows lacks, and texts in the encoding of
whatever the machine has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ..as_on_windows import BLOCKED
from ..windows_names import missing_names
from .source_tree import Module, Tree
from .structure_rules import SHARED

#: Modules of the standard library that have names on Linux alone.
LIBRARY = ("asyncio", "mmap", "os", "select", "signal", "socket", "socketserver", "time")
#: Raise on Windows, or do nothing there.
ARGUMENTS = frozenset(
    {"extra_groups", "group", "pass_fds", "preexec_fn", "process_group", "start_new_session"}
    | {"umask", "user"}
)
PATHS = ("/bin/", "/dev/", "/tmp")
#: Start processes of deployments alone, which need Terraform, which isn't run on Windows.
DEPLOYMENTS = frozenset(
    {"cluster/terradask/_terraform/process.py", "stacks/terradask_stacks/rendering.py"}
)


def posix_alone(tree: Tree) -> list[str]:
    """Return uses of what only POSIX has, in the client's modules."""
    return [
        f"{module.where}:{line}: {what}"
        for module in client_modules(tree)
        for line, what in uses(module.syntax.body)
        if module.where not in DEPLOYMENTS or what.partition(" ")[0] != "argument"
    ]


def without_encoding(tree: Tree) -> list[str]:
    """Return texts of files and processes without an encoding, in the client's modules."""
    return [
        f"{module.where}:{node.lineno}: {ast.unparse(node.func)}"
        for module in client_modules(tree)
        for node in ast.walk(module.syntax)
        if isinstance(node, ast.Call) and _is_text(node) and not _has(node, "encoding")
    ]


def client_modules(tree: Tree) -> Iterator[Module]:
    """Yield the modules that the client imports: all but the host program's own."""
    for root in ("terradask_modules", "terradask_stacks", "terradask"):
        yield from tree.below(root)
    for module in tree.below("terradask_host"):
        if f"{module.name}.".startswith(SHARED["terradask"]):
            yield module


def uses(body: Iterable[ast.AST], *, is_guarded: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of what only POSIX has, with its names."""
    for node in body:
        branches = is_guarded
        if isinstance(node, ast.If | ast.IfExp) and _asks_for_platform(node.test):
            branches = True
            ends = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return)
            # What follows is for the other platforms.
            is_guarded = is_guarded or ends
        if not branches:
            yield from _used(node)
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                nodes = [each for each in value if isinstance(each, ast.AST)]
                yield from uses(nodes, is_guarded=branches)
            elif isinstance(value, ast.AST):
                yield from uses([value], is_guarded=branches)


def _asks_for_platform(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return any(word in text for word in ("sys.platform", "os.name", "hasattr("))


def _used(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in LIBRARY:
            found = [f"{module}.{name}"] if name in missing_names(module) else []
        case ast.ImportFrom(module=str(module), names=names, level=0):
            found = [module] if module.partition(".")[0] in BLOCKED else []
            if module in LIBRARY:
                missing = missing_names(module)
                found += [f"{module}.{each.name}" for each in names if each.name in missing]
        case ast.Import(names=names):
            found = [each.name for each in names if each.name.partition(".")[0] in BLOCKED]
        case ast.Call(keywords=keywords) if ast.unparse(node.func).startswith("subprocess."):
            # With flags for Windows beside them, each platform has its own.
            given = [] if _has(node, "creationflags") else keywords
            found = [f"argument {each.arg}" for each in given if each.arg in ARGUMENTS]
        case ast.Call(func=ast.Name(id="Path" | "open"), args=[ast.Constant(value=str(path)), *_]):
            found = [f"path {path}"] if path.startswith(PATHS) else []
        case _:
            return
    yield from ((node.lineno, each) for each in found)


def _is_text(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open") | ast.Attribute(value=ast.Name(id="io"), attr="open"):
            return "b" not in _mode(call, 1)
        case ast.Attribute(value=ast.Name(id="tarfile")):
            return False
        case ast.Attribute(attr="open"):
            mode = _mode(call, 0)
            return bool(mode) and set(mode) <= set("rwax+t")
        case ast.Attribute(attr="read_text"):
            return not call.args
        case ast.Attribute(attr="write_text"):
            return len(call.args) == 1
    return any(
        each.arg in ("text", "universal_newlines") and ast.unparse(each.value) == "True"
        for each in call.keywords
    )


def _mode(call: ast.Call, place: int) -> str:
    given = [each.value for each in call.keywords if each.arg == "mode"]
    mode = [*given, *call.args[place : place + 1]]
    return mode[0].value if mode and isinstance(mode[0], ast.Constant) else ""


def _has(call: ast.Call, name: str) -> bool:
    return any(each.arg == name for each in call.keywords)
