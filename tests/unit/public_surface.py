"""What users can rely on, as sorted text: one line an entry, long signatures one line a parameter.

Types are named without their modules, and a class's members without the base class that defines
them: neither is for users.

The test runs this file in a process of its own: click keeps a command's help option as it was when
it was first asked for.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import terradask
from terradask import errors

ROOT = Path(__file__).parents[2]

_PROTOCOLS = (
    "__aenter__",
    "__await__",
    "__call__",
    "__contains__",
    "__enter__",
    "__getitem__",
    "__iter__",
    "__len__",
)
_WIDTH = 100


def public_surface() -> str:
    """Return all of it."""
    sections = {
        "Modules": modules(),
        "Imports in the documentation": documented_imports(),
        "Errors": error_lines(),
        "Classes and functions": objects(),
        "Settings": settings(),
        "Command line": command_line(),
    }
    return "\n".join(
        f"# {title}\n\n" + "\n".join(lines) + "\n" for title, lines in sections.items()
    )


def modules() -> list[str]:
    """Return every public module, and what it exports."""
    found = []
    for module in _public_modules():
        found.append(module.__name__)
        found += [f"{module.__name__}.{name}" for name in _exports(module)]
    return sorted(found)


def documented_imports() -> list[str]:
    """Return what the pages and examples import of modules other than ``terradask``, which users
    then do too.
    """
    return sorted(f"from {module} import {name}" for module, name in _documented())


def error_lines() -> list[str]:
    """Return the tree of errors: their public bases and exit codes."""
    kinds = [getattr(errors, name) for name in dir(errors)]
    return sorted(
        f"{kind.__name__}({', '.join(_public_bases(kind))}): {kind.exit_code}" for kind in kinds
    )


def objects() -> list[str]:
    """Return the signatures of all that is exported or documented."""
    entries = [getattr(module, name) for module in _public_modules() for name in _exports(module)]
    entries += [getattr(importlib.import_module(module), name) for module, name in _documented()]
    entries += docs_page("python_reference").documented()
    found = {
        entry.__name__: entry
        for entry in entries
        if inspect.isclass(entry) or inspect.isfunction(entry)
    }
    lines: list[str] = []
    for name in sorted(found):
        entry = found[name]
        lines += _class(entry) if inspect.isclass(entry) else _signature(name, entry)
    return lines


def settings() -> list[str]:
    """Return each setting's section, key, type and default, as its JSON schema has them."""
    from terradask_stacks.settings import Settings

    schema = Settings.model_json_schema()
    names = {
        key: part["$ref"].rpartition("/")[2]
        for key, part in schema["properties"].items()
        if "$ref" in part
    }
    titles = {model: section for section, model in names.items()}
    lines = [
        f"{key}: {_schema(part)}"
        for key, part in schema["properties"].items()
        if "$ref" not in part
    ]
    for model, part in schema["$defs"].items():
        required = part.get("required", [])
        for key, field in part["properties"].items():
            lines.append(
                f"{titles.get(model, model)}.{key}: "
                f"{_schema(field)}{' needed' if key in required else ''}"
            )
    return sorted(lines)


def command_line() -> list[str]:
    """Return the help of every command."""
    from terradask.cli import command

    lines: list[str] = []
    for ctx in _contexts(
        click.Context(
            command, info_name="terradask", terminal_width=_WIDTH, **command.context_settings
        )
    ):
        lines += [
            f"## {ctx.command_path}",
            "",
            *(line.rstrip() for line in ctx.command.get_help(ctx).splitlines()),
            "",
        ]
        hidden = [
            option.opts
            for option in ctx.command.params
            if isinstance(option, click.Option) and option.hidden
        ]
        lines += [f"hidden: {' '.join(opts)}" for opts in hidden]
    return lines


def _contexts(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in sorted(ctx.command.list_commands(ctx)):
            child = ctx.command.get_command(ctx, name)
            assert child is not None
            yield from _contexts(
                click.Context(child, info_name=name, parent=ctx, **child.context_settings)
            )


def _public_modules() -> list[ModuleType]:
    names = [
        found.name
        for found in pkgutil.iter_modules(terradask.__path__)
        if not found.name.startswith("_")
    ]
    return [terradask, *(importlib.import_module(f"terradask.{name}") for name in sorted(names))]


def _exports(module: ModuleType) -> list[str]:
    if module is errors:
        return dir(errors)
    own = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return sorted(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def _documented() -> set[tuple[str, str]]:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]
    statement = re.compile(r"^from (terradask[\w.]*) import ([\w, ]+)$", re.MULTILINE)
    found = [
        match for page in pages for match in statement.findall(page.read_text(encoding="utf-8"))
    ]
    return {
        (module, name.strip())
        for module, names in found
        for name in names.split(",")
        if module != "terradask"
    }


def docs_page(name: str) -> ModuleType:
    """Return a module of docs/, which makes a part of the pages."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ours(cls: type) -> bool:
    return cls.__module__.startswith("terradask")


def _public_bases(cls: type) -> list[str]:
    """Return the nearest bases that users can name: exported ones, and other libraries'."""
    names = {*terradask.__all__, *dir(errors)}
    found: list[str] = []
    for base in cls.__bases__:
        if base.__name__ in names or not _ours(base):
            found += (
                [base.__name__]
                if base.__name__ not in {"object", "ABC", "Generic", "Protocol"}
                else []
            )
        else:
            found += _public_bases(base)
    return list(dict.fromkeys(found))


def _class(cls: type) -> list[str]:
    name = cls.__name__
    bases = _public_bases(cls)
    head = f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if "BaseModel" in bases or any(base.__name__ == "BaseModel" for base in cls.__mro__):
        return [f"{head}: settings"]
    lines = [head, *_signature(name, cls)]
    lines += [
        f"{name}.{protocol}"
        for protocol in _PROTOCOLS
        if any(protocol in vars(base) for base in cls.__mro__)
    ]
    members = dict(_members(cls))
    for member in sorted(members):
        lines += _member(f"{name}.{member}", members[member], cls)
    return lines


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield what our classes give a class, whichever of them it is; an error's without what its
    base has as well.
    """
    fields = (
        {field.name: field for field in dataclasses.fields(cls)}
        if dataclasses.is_dataclass(cls)
        else {}
    )
    # A class whose base is exported says only what is its own.
    exported = {getattr(errors, name) for name in dir(errors)}
    left_out = [base for base in cls.__mro__[1:] if base in exported] if cls in exported else []
    # What a subclass of Dask's sets may be Dask's.
    ours_alone = not any(base.__module__.startswith("distributed") for base in cls.__mro__)
    for base in reversed([base for base in cls.__mro__ if _ours(base) and base not in left_out]):
        yield from (
            (name, None) for name in _attributes(base) if ours_alone and not name.startswith("_")
        )
        yield from ((name, value) for name, value in vars(base).items() if not name.startswith("_"))
    yield from fields.items()


def _attributes(cls: type) -> Iterable[str]:
    """Return what a class's own ``__init__`` sets."""
    function = vars(cls).get("__init__")
    if not inspect.isfunction(function) or function.__code__.co_filename == "<string>":
        return []
    tree = ast.parse(f"class _:\n{inspect.getsource(function)}")
    stored = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]
    return [
        node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"
    ]


def _member(name: str, member: Any, cls: type) -> list[str]:
    if isinstance(member, dataclasses.Field):
        return [f"{name}: {_annotation(member.type)}"]
    getter = member.func if isinstance(member, cached_property) else getattr(member, "fget", None)
    if getter is not None:
        settable = ", settable" if getattr(member, "fset", None) else ""
        return [
            (
                f"{name}: {_annotation(inspect.signature(getter).return_annotation)} "
                f"(property{settable})"
            )
        ]
    if isinstance(member, staticmethod | classmethod):
        return _signature(
            name, getattr(cls, name.rpartition(".")[2]), kind=f" ({type(member).__name__})"
        )
    if inspect.isfunction(member):
        return _signature(
            name, member, kind=" (async)" if inspect.iscoroutinefunction(member) else ""
        )
    return [name]


def _signature(name: str, function: Any, *, kind: str = "") -> list[str]:
    signature = inspect.signature(function)
    parameters = [_parameter(each) for each in signature.parameters.values() if each.name != "self"]
    named = [each for each in signature.parameters.values() if each.name != "self"]
    first = next(
        (number for number, each in enumerate(named) if each.kind is each.KEYWORD_ONLY), None
    )
    if first is not None and not any(each.kind is each.VAR_POSITIONAL for each in named):
        parameters.insert(first, "*")
    # What a constructor returns is no news.
    returned = (
        "" if inspect.isclass(function) else f" -> {_annotation(signature.return_annotation)}"
    )
    line = f"{name}({', '.join(parameters)}){returned}{kind}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{name}(", *(f"    {each}," for each in parameters), f"){returned}{kind}"]


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (
        parameter.kind is parameter.VAR_KEYWORD
    )
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    default = parameter.default
    named = callable(default) and hasattr(default, "__name__")
    return f"{text} = " + (
        default.__name__.strip("<>") if named else re.sub(r" at 0x[0-9a-f]+", "", repr(default))
    )


def _annotation(annotation: Any) -> str:
    """Return an annotation as text, its names without their modules."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return ast.unparse(_Unqualified().visit(ast.parse(text, mode="eval")))


class _Unqualified(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        return ast.Name(node.attr)


def _schema(part: dict[str, Any]) -> str:
    """Return a part of a JSON schema without its words, on one line."""
    kept = {key: value for key, value in part.items() if key not in {"description", "title"}}
    return json.dumps(kept, sort_keys=True).replace("#/$defs/", "")


if __name__ == "__main__":
    sys.stdout.write(public_surface())
