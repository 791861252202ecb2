"""What users of Python and of the command line rely on, as a text in the form of a stub.

One line a name, grouped by module and class. Types stand without their modules, a class has its own
members and those of its private bases, and a set of keyword arguments that several signatures share
stands once. Each setting, with type and default, stands in ``docs/settings.md``, and each option's
help in ``docs/cli.md``; a test keeps both fresh.

The test runs this file in a process of its own: click keeps a command's help option as it was when
it was first asked for.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import click

import terradask
import terradask_simulator.errors
from terradask import errors

ROOT = Path(__file__).parents[2]

#: Special method -> what a class with it can be used for.
_PROTOCOLS = {
    "__aenter__": "async with",
    "__await__": "await",
    "__call__": "()",
    "__contains__": "in",
    "__enter__": "with",
    "__getitem__": "[]",
    "__iter__": "for",
    "__len__": "len",
}
#: What users of the simulator, a distribution of its own, import.
_OF_SIMULATOR = ("terradask_simulator", "terradask_simulator.errors", "terradask_simulator.iam")
_WIDTH = 100
#: Where a signature may go on in the next line.
_BREAK = "\n"


def public_surface() -> str:
    """Return all of it."""
    returned = docs_page("python_reference").documented()
    modules = _public_modules()
    shown = {id(entry) for module in modules for entry in _entries(module).values()}
    others = {
        name: getattr(importlib.import_module(home), name)
        for home, name in _documented()
        if not home.startswith("terradask_simulator")
    }
    others.update({entry.__name__: entry for entry in returned})
    sections = {
        "keyword arguments that several signatures take": [
            line for name in _shared() for line in _arguments(name)
        ]
    }
    sections |= {f"module {each.__name__}": module_lines(each) for each in modules}
    sections["what these return, and what the documentation imports besides"] = [
        line
        for name, entry in sorted(others.items())
        if id(entry) not in shown
        for line in _lines(name, entry)
    ]
    public = {module.__name__ for module in modules}
    sections["imports in the documentation from other modules"] = [
        f"from {module} import {name}"
        for module, name in sorted(_documented())
        if module not in public
    ]
    sections["command line"] = list(_command_line())
    return _shown(sections)


def simulator_surface() -> str:
    """Return what the simulator exports, each name in the first module that has it."""
    homes: dict[Any, str] = {}
    sections = {}
    for name in _OF_SIMULATOR:
        module = importlib.import_module(name)
        entries = _entries(module)
        sections[f"module {module.__name__}"] = [
            line
            for name, entry in entries.items()
            for line in (
                [f"{name}: as in {homes[entry]}"] if entry in homes else _lines(name, entry)
            )
        ]
        homes = dict.fromkeys(entries.values(), module.__name__) | homes
    return _shown(sections)


def _shown(sections: Mapping[str, list[str]]) -> str:
    return "\n".join(f"# {title}\n\n" + "\n".join(each) + "\n" for title, each in sections.items())


def module_lines(module: ModuleType) -> list[str]:
    """Return what a module exports."""
    return [line for name, entry in _entries(module).items() for line in _lines(name, entry)]


def _command_line() -> Iterator[str]:
    """Yield each command with its arguments and options."""
    from terradask.cli import command

    for ctx in _contexts(click.Context(command, info_name="terradask")):
        yield from _filled([ctx.command_path, *map(_option, ctx.command.params)], "")


def _option(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        name = str(parameter.human_readable_name)
        return f"[{name}]" if not parameter.required else name
    assert isinstance(parameter, click.Option)
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
    value = "" if parameter.is_flag else f" {'|'.join(map(str, choices)) or 'VALUE'}"
    marks = " hidden" * parameter.hidden + " repeatable" * parameter.multiple
    needed = " needed" * parameter.required
    return f"[{names}{value}{marks}{needed}]"


def _contexts(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in sorted(ctx.command.list_commands(ctx)):
            child = ctx.command.get_command(ctx, name)
            assert child is not None
            yield from _contexts(click.Context(child, info_name=name, parent=ctx))


def _public_modules() -> list[ModuleType]:
    names = [
        found.name
        for found in pkgutil.iter_modules(terradask.__path__)
        if not found.name.startswith("_")
    ]
    return [terradask, *(importlib.import_module(f"terradask.{name}") for name in sorted(names))]


def _entries(module: ModuleType) -> dict[str, Any]:
    """Return what a module exports: its ``__all__``, else its own functions."""
    if module is errors:
        return {name: getattr(errors, name) for name in dir(errors)}
    own = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    return {name: getattr(module, name) for name in sorted(names)}


def _documented() -> set[tuple[str, str]]:
    """Return what pages and examples import of modules other than ``terradask``."""
    pages = [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("simulator/**/*.md"),
        *ROOT.glob("examples/*.py"),
    ]
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


@cache
def docs_page(name: str) -> ModuleType:
    """Return a module of docs/, which makes a part of the pages."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _lines(name: str, entry: Any) -> list[str]:
    if inspect.isclass(entry):
        return _error(entry) if issubclass(entry, Exception) else _class(name, entry)
    if inspect.isfunction(entry):
        return _signature(name, entry)
    return [
        f"{name} = {_annotation(entry)}" if get_origin(entry) else f"{name}: {type(entry).__name__}"
    ]


def _ours(cls: type) -> bool:
    return cls.__module__.startswith("terradask")


@cache
def _exported() -> set[Any]:
    modules = [terradask, errors, terradask_simulator.errors]
    return {each for module in modules for each in _entries(module).values() if callable(each)}


def _public_bases(cls: type) -> list[str]:
    """Return the nearest bases that users can name: exported ones, and other libraries'."""
    exported = _exported()
    found: list[str] = []
    for base in cls.__bases__:
        if base in exported or not _ours(base):
            found += (
                [base.__name__]
                if base.__name__ not in {"object", "ABC", "Generic", "Protocol"}
                else []
            )
        else:
            found += _public_bases(base)
    return list(dict.fromkeys(found))


def _head(name: str, cls: type) -> str:
    bases = ", ".join(_public_bases(cls))
    return f"class {name}({bases}):" if bases else f"class {name}:"


def _error(cls: Any) -> list[str]:
    """Return an error, its exit code and its fields in one line, and how it is made in another."""
    members = {name: each for name, each in members_of(cls) if name != "exit_code"}
    fields = sorted(name for name, each in members.items() if not inspect.isroutine(each))
    methods = [name for name, each in members.items() if inspect.isroutine(each)]
    code = [f"exit code {cls.exit_code}"] if hasattr(cls, "exit_code") else []
    lines = [
        " ".join([_head(cls.__name__, cls), "; ".join(code + [", ".join(fields)] * bool(fields))])
    ]
    if "__init__" in vars(cls):
        lines += _signature("__init__", cls, indent="    ")
    return lines + [
        one for name in sorted(methods) for one in _member(name, members[name], cls, "    ")
    ]


def _class(name: str, cls: type) -> list[str]:
    head, indent = _head(name, cls), "    "
    if any(base.__name__ == "BaseModel" for base in cls.__mro__):
        return [f"{head} settings"]
    uses = [
        use
        for special, use in _PROTOCOLS.items()
        if any(special in vars(base) for base in cls.__mro__)
    ]
    lines = [head + (f" supports {', '.join(uses)}" if uses else "")]
    if not _is_made_by_fields(cls):
        lines += _signature("__init__", cls, indent=indent)
    members = dict(members_of(cls))
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    own = [field.name for field in fields if field.name in members]
    if own:
        shown = [_field(members[name]) for name in own]
        lines += _filled([*(f"{each}," for each in shown[:-1]), shown[-1]], indent)
    for member in sorted(members.keys() - set(own)):
        lines += _member(member, members[member], cls, indent)
    return lines


def _is_made_by_fields(cls: type) -> bool:
    """Return whether a dataclass's fields say how it is made."""
    return dataclasses.is_dataclass(cls) and cls.__init__.__code__.co_filename == "<string>"


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield what our classes give a class, without what an exported base has."""
    left_out = [base for base in cls.__mro__[1:] if base in _exported()]
    inherited = {name for base in left_out for name in vars(base).get("__dataclass_fields__", ())}
    # What a subclass of Dask's sets may be Dask's.
    ours_alone = not any(base.__module__.startswith("distributed") for base in cls.__mro__)
    for base in reversed([base for base in cls.__mro__ if _ours(base) and base not in left_out]):
        own = [*(_attributes(base) if ours_alone else ())]
        yield from ((name, None) for name in own if not name.startswith("_"))
        yield from ((name, value) for name, value in vars(base).items() if not name.startswith("_"))
    if dataclasses.is_dataclass(cls):
        yield from (
            (field.name, field)
            for field in dataclasses.fields(cls)
            if field.name not in inherited and not field.name.startswith("_")
        )


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


def _member(name: str, member: Any, cls: type, indent: str) -> list[str]:
    getter = member.func if isinstance(member, cached_property) else getattr(member, "fget", None)
    if getter is not None:
        kind = "property" if getattr(member, "fset", None) is None else "settable property"
        returned = _annotation(inspect.signature(getter).return_annotation)
        return [f"{indent}@{kind} {name}: {returned}"]
    if isinstance(member, staticmethod | classmethod):
        found = getattr(cls, name)
        return _signature(name, found, indent=indent, kind=f"@{type(member).__name__} ")
    if inspect.isfunction(member):
        kind = "async " if inspect.iscoroutinefunction(member) else ""
        return _signature(name, member, indent=indent, kind=kind)
    return [f"{indent}{name}"]


def _field(field: dataclasses.Field[Any]) -> str:
    text = f"{field.name}: {_annotation(field.type)}" + " (not an argument)" * (not field.init)
    if field.default is not dataclasses.MISSING:
        return f"{text} = {_value(field.default)}"
    if field.default_factory is not dataclasses.MISSING:
        return f"{text} = {_value(field.default_factory)}()"
    return text


def _signature(name: str, function: Any, *, indent: str = "", kind: str = "") -> list[str]:
    signature = inspect.signature(function)
    given = {key: each for key, each in signature.parameters.items() if key != "self"}
    for shared, arguments in _shared().items():
        if name != shared and arguments.items() <= given.items():
            given = {key: each for key, each in given.items() if key not in arguments}
            given[shared] = inspect.Parameter(shared, inspect.Parameter.VAR_KEYWORD)
    parameters = []
    for before, each in pairwise([None, *given.values()]):
        if _is(before, "POSITIONAL_ONLY") and not _is(each, "POSITIONAL_ONLY"):
            parameters.append("/")
        if _is(each, "KEYWORD_ONLY") and not _is(before, "KEYWORD_ONLY", "VAR_POSITIONAL"):
            parameters.append("*")
        parameters.append(_parameter(each))
    # What a constructor returns is no news.
    returned = (
        "" if inspect.isclass(function) else f" -> {_annotation(signature.return_annotation)}"
    )
    parts = f"{kind}def {name}({f',{_BREAK}'.join(parameters)}){returned}".split(_BREAK)
    return _filled(parts, indent)


def _is(parameter: inspect.Parameter | None, *kinds: str) -> bool:
    return parameter is not None and parameter.kind.name in kinds


@cache
def _shared() -> Mapping[str, Mapping[str, inspect.Parameter]]:
    """Return the sets of keyword arguments that stand once, each by its name."""
    return {
        name: {
            key: each
            for key, each in inspect.signature(source).parameters.items()
            if each.kind is each.KEYWORD_ONLY
        }
        for name, source in docs_page("python_reference").shared_arguments().items()
    }


def _arguments(name: str) -> list[str]:
    """Return a shared set of keyword arguments, each in a line."""
    return [f"{name}:", *(f"    {_parameter(each)}" for each in _shared()[name].values())]


def _filled(parts: Iterable[str], indent: str) -> list[str]:
    """Return parts in lines, none of which breaks a part."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= _WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(f"{indent}{'        ' * bool(lines)}{part}")
    return lines


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (
        parameter.kind is parameter.VAR_KEYWORD
    )
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    return text if parameter.default is parameter.empty else f"{text} = {_value(parameter.default)}"


def _value(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__.strip("<>"))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _annotation(annotation: Any) -> str:
    """Return an annotation as text, its names without their modules."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return ast.unparse(_Unqualified().visit(ast.parse(text, mode="eval")))


class _Unqualified(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        return ast.Name(node.attr)


if __name__ == "__main__":
    sys.stdout.write(simulator_surface() if "simulator" in sys.argv else public_surface())
