"""The generated part of ``docs/python.md``: public classes and functions, from their documentation
strings.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

_SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
_PERMISSIONS = re.compile("Permissions? needed|Needs the rights")
_WIDTH = 100
#: Classes that are described in full; the others are what methods return, by names with units.
_IN_FULL = {"Cluster", "Deployment", "Function", "Job", "Workspace"}
#: Classes for programs: signatures have the parameters' names, `help` their descriptions.
_BRIEF = {"Deployment", "Workspace"}


def python_markdown() -> str:
    """Return the reference of what ``terradask`` exports, each docstring once."""
    page = _Page()
    full = [
        page.class_of(entry) if inspect.isclass(entry) else page.function(entry)
        for entry in documented()
        if not inspect.isclass(entry) or entry.__name__ in _IN_FULL
    ]
    named = [
        _named(entry)
        for entry in documented()
        if inspect.isclass(entry) and entry.__name__ not in _IN_FULL
    ]
    return "\n\n".join([*full, "### What they return", "\n".join(named)])


def _named(cls: type) -> str:
    """Return a class in one item: what it is, and the names of its attributes and methods."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    pieces = _SECTION.split(doc)
    summary = _inline(pieces[0].strip().partition("\n\n")[0])
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    attributes = [
        name.strip()
        for title in ("Parameters", "Attributes")
        for names, _what in _entries(sections.get(title, ""))
        for name in names.split(",")
    ]
    members = [
        name if isinstance(member, property) else f"{name}()"
        for name, member, _doc in _members(cls)
        if name != "as_dict"
    ]
    names = ", ".join(f"`{name}`" for name in dict.fromkeys([*attributes, *members]))
    return _bullet(f"**`{cls.__name__}`**: {summary} {names}{'.' * bool(names)}")


def errors_markdown() -> str:
    """Return the tree of errors, each with its exit code and what its documentation says first."""
    from terradask import errors

    return "\n".join(
        _branch(errors.TerradaskError, {getattr(errors, name) for name in dir(errors)})
    )


def _branch(error: Any, known: set[Any], indent: str = "") -> Iterator[str]:
    summary = " ".join(inspect.cleandoc(error.__doc__).partition("\n\n")[0].split())
    text = re.sub(r"``([^`]+)``", r"`\1`", summary)
    line = f"- `{error.__name__}` ({error.exit_code}): {text}"
    yield textwrap.fill(
        line,
        100,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for below in sorted(known, key=lambda each: str(each.__name__)):
        if error in below.__bases__:
            yield from _branch(below, known, indent + "  ")


def documented() -> list[Any]:
    """Return what ``terradask`` exports, and the classes of what that returns."""
    import terradask
    from terradask._cleanup.orphans import Orphan, Sweep, Swept
    from terradask._clusters.overview import ClusterOverview
    from terradask._clusters.reach.result import Reach, Reached
    from terradask._observe.logs.lines import ClusterLogs, LogLine
    from terradask._plans.folder import Plans
    from terradask._plans.report import PlanReport, WorkspaceReport
    from terradask._plans.summary import Change, Danger, PlanSummary

    exported = [getattr(terradask, name) for name in terradask.__all__ if not name.startswith("_")]
    return [
        *exported,
        Plans,
        WorkspaceReport,
        PlanReport,
        PlanSummary,
        Change,
        Danger,
        ClusterOverview,
        ClusterLogs,
        LogLine,
        Reach,
        Reached,
        Sweep,
        Orphan,
        Swept,
    ]


def shared_arguments() -> dict[str, Any]:
    """Return the sets of keyword arguments that several signatures take, each by its name."""
    from terradask._dask.arguments import ClusterArguments
    from terradask._dask.job import JobOptions, prepare_job

    return {ClusterArguments.__name__: ClusterArguments, JobOptions.__name__: prepare_job}


class _Page:
    """What was written so far."""

    def __init__(self) -> None:
        #: Docstring -> the name under which it stands.
        self._written: dict[str, str] = {}
        #: Parameter of a class's method, and its description -> the first method that has them.
        self._seen: dict[tuple[str, str], str] = {}

    def function(self, function: Any) -> str:
        names = [_parameter(p) for p in inspect.signature(function).parameters.values()]
        return f"### `{function.__name__}({', '.join(names)})`\n\n{_text(function.__doc__)}"

    def class_of(self, cls: type) -> str:
        """Return a class: its docstring, then its members, by topic if the docstring has topics."""
        members = {name: (member, doc) for name, member, doc in _members(cls) if name != "as_dict"}
        parts = [f"### `{cls.__name__}`", _text(cls.__doc__)]
        self._seen.clear()
        for topic, names in _topics(cls).items():
            steps = topic.startswith("Steps of")
            found = {} if steps else {name: members.pop(name) for name in names if name in members}
            others = [f"`{name}`" for name in names if name not in found]
            parts += [f"**{topic}**", *self._listed(cls, found)]
            parts += [_wrapped(f"{'Also ' * bool(found)}{', '.join(others)}.")] if others else []
            members = {name: each for name, each in members.items() if name not in names}
        return "\n\n".join(part for part in [*parts, *self._listed(cls, members)] if part)

    def _listed(self, cls: type, members: Mapping[str, tuple[Any, str]]) -> list[str]:
        """Return members: those of one paragraph as a list, then the others."""
        short, long = [], []
        for name, (member, doc) in members.items():
            title, text = _signature(cls, name, member), inspect.cleandoc(doc)
            shown = _brief(doc) if cls.__name__ in _BRIEF else _text(doc, name, self._seen)
            first = self._written.setdefault(text, f"{cls.__name__}.{name}")
            if first != f"{cls.__name__}.{name}":
                short.append(_bullet(f"`{title}`: as `{first}`."))
            elif "\n\n" not in shown:
                short.append(_bullet(f"`{title}`: {shown}"))
            else:
                long.append(f"#### `{title}`\n\n{shown}")
        return ["\n".join(short), *long]


def _brief(doc: str) -> str:
    """Return a docstring's text, and what it returns, as one paragraph."""
    pieces = _SECTION.split(inspect.cleandoc(doc))
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    returns = [f"Returns {_entry(*each)}" for each in _entries(sections.get("Returns", ""))]
    return " ".join([_inline(pieces[0]), *returns])


def _topics(cls: type) -> dict[str, list[str]]:
    """Return topic -> members, as the section on methods of a class's docstring has them."""
    pieces = _SECTION.split(inspect.cleandoc(cls.__doc__ or ""))
    body = dict(zip(pieces[1::2], pieces[2::2], strict=True)).get("Methods", "")
    return {topic: re.findall(r"`(\w+)`", names) for topic, names in _entries(body)}


def _members(cls: type) -> Iterator[tuple[str, Any, str]]:
    import terradask

    # What is inherited from another public class stands there.
    public = {
        getattr(terradask, name) for name in terradask.__all__ if not name.startswith("_")
    } - {cls}
    ours = [
        base
        for base in cls.__mro__
        if base.__module__.startswith("terradask") and base not in public
    ]
    # Its own first, as somebody reads who looks for how to make one.
    members: dict[str, Any] = {}
    for base in ours:
        members = {**members, **{k: v for k, v in vars(base).items() if k not in members}}
    for name, member in members.items():
        if name.startswith("_"):
            continue
        function = (
            member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        )
        if inspect.isfunction(function) and function.__doc__:
            yield name, member, function.__doc__


def _signature(cls: type, name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"{cls.__name__}.{name}"
    parameters = inspect.signature(getattr(cls, name)).parameters
    names = [_parameter(p) for p in parameters.values() if p.name != "self"]
    prefix = "await " if inspect.iscoroutinefunction(getattr(cls, name)) else ""
    return f"{prefix}{cls.__name__}.{name}({', '.join(names)})"


def _parameter(parameter: inspect.Parameter) -> str:
    """Return a parameter without its type; a default that is a function or a class by its name
    alone.
    """
    if callable(parameter.default) and parameter.default is not parameter.empty:
        return f"{parameter.name}={parameter.default.__name__.strip('<>')}"
    return str(parameter.replace(annotation=parameter.empty))


def _text(doc: str | None, method: str = "", seen: dict[tuple[str, str], str] | None = None) -> str:
    """Return a numpydoc string as Markdown: its sections as lists or paragraphs.

    A parameter that another method of the class has too is described once.
    """
    text = inspect.cleandoc(doc or "")
    pieces = _SECTION.split(text)
    # The guides have the details of methods.
    paragraphs = pieces[0].strip().split("\n\n")[: 1 if method else None]
    out = [_wrapped(_inline(paragraph)) for paragraph in paragraphs]
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if title == "Examples" and not method:
            shown = [line for line in body.strip().splitlines() if line.startswith((">>>", "..."))]
            code = "\n".join(re.sub(r"^(>>>|\.\.\.) ?|\s+# doctest.*$", "", line) for line in shown)
            out.append(f"```python\n{code}\n```")
        elif title == "Returns":
            out += [_wrapped(f"Returns {_entry(name, what)}") for name, what in _entries(body)]
        elif title in {"Parameters", "Attributes"}:
            out += _lists(body, method, {} if seen is None else seen)
        elif title not in {"Examples", "Methods", "Notes", "Raises"} or (
            title == "Notes" and not method
        ):
            # The page on IAM has the permissions.
            parts = [part for part in body.strip().split("\n\n") if not _PERMISSIONS.match(part)]
            out += [_wrapped(_inline(part)) for part in parts]
    return "\n\n".join(part for part in out if part)


def _lists(body: str, method: str, seen: dict[tuple[str, str], str]) -> Iterator[str]:
    """Yield the entries of a section as lists, one for each topic, with its name above.

    Settings of the same topic of ``docs/settings.md`` are named in one paragraph with the link.
    """
    entries: list[str] = []
    same: list[str] = []
    topic = ""
    for name, what in [*_entries(body), ("****", "")]:
        if re.fullmatch(r"\*\*.*\*\*", name):
            link = f"[Settings](settings.md#{topic.lower().replace(' ', '-')})"
            if same:
                yield _wrapped(f"{link}: {', '.join(_code(one) for one in same)}.")
            if entries:
                yield "\n".join(entries)
            topic = name.strip("*")
            if topic:
                yield name
            entries, same = [], []
        elif _settings().get(topic, set()).issuperset(name.split(", ")):
            same.append(name)
        elif topic and name in _renamed():
            entries.append(_bullet(_entry(name, what.partition(". ")[0].rstrip(".") + ".")))
        else:
            first = seen.setdefault((name, what), method)
            entries.append(_bullet(_entry(name, what if first == method else f"as for `{first}`.")))


@cache
def _settings() -> dict[str, set[str]]:
    """Return topic -> arguments of `Cluster` that are settings of the same name."""
    from terradask_stacks.settings import ClusterSettings
    from terradask_stacks.topics import by_topic

    names = {*ClusterSettings.model_fields}
    return {topic: set(found) for topic, found in by_topic(names).items()}


def _renamed() -> set[str]:
    """Return the arguments of `Cluster` that are settings under another name."""
    from terradask._dask.arguments import ARGUMENT_OF

    return {*ARGUMENT_OF.values()}


def _entry(name: str, what: str) -> str:
    return f"{_code(name)}: {what}" if what else f"{_code(name)}."


def _entries(body: str) -> Iterator[tuple[str, str]]:
    name, lines = "", list[str]()
    for line in [*body.strip().splitlines(), ""]:
        if line.startswith(" ") or (not line and lines):
            lines.append(line.strip())
            continue
        if name:
            yield name, _inline(" ".join(filter(None, lines)))
        name, lines = line, []
    if name:
        yield name, _inline(" ".join(filter(None, lines)))


def _code(names: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in names.split(","))


def _inline(text: str) -> str:
    """Return a paragraph on one line, with Markdown's code."""
    return re.sub(r"(?<!`)``([^`]+)``", r"`\1`", " ".join(text.split()))


def _bullet(text: str) -> str:
    return _wrapped(f"- {text}", indent="  ")


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
