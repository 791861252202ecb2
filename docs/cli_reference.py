"""The generated parts of ``docs/cli.md``: commands with their options, and exit codes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from terradask.cli._app import command as root

#: Options that a command shares at least, to refer to the other one.
_SHARED = 3
#: Options that the page's beginning describes.
_COMMON = ("--yes", "--json")
_KEPT = re.compile(r"\b[Ee]xit|^(?:A )?[A-Z]{4,} (?:is|are)\b")
# Scripts read these; 2, 128 + n and 130 are also the shell's.
_MEANINGS = {
    0: "done",
    1: "failed",
    2: "bad input: a command, option or setting that can't be used",
    3: "something is missing: Terraform, the provider, credentials, permissions, an endpoint",
    4: "Terraform failed; its diagnostics are in the error",
    5: "a conflict: a lock, a stale plan, deployments or rules that still use the network",
    6: "missing: no network, no such cluster, or a stopped one",
    7: "timeout: hosts or workers are missing",
    8: "refused: by policy, a foreign resource, or a quota that is too small",
    125: "a job is lost",
    130: "interrupted (Ctrl-C); 128 + n for another signal n",
}


def commands() -> Iterator[tuple[click.Context, click.Command]]:
    """Walk through every command that runs something, with its context."""
    yield from _below(click.Context(root, info_name="terradask"))


def _below(ctx: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    command = ctx.command
    if not isinstance(command, click.Group):
        yield ctx, command
        return
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        if child is not None:
            yield from _below(click.Context(child, info_name=name, parent=ctx))


def commands_markdown() -> str:
    """Return the reference of every command. Options that an earlier one has too are there."""
    parts = []
    earlier: dict[str, dict[str, str]] = {}
    for ctx, command in commands():
        parts.append(f"### `{ctx.command_path}`")
        if (usage := _usage(ctx)) != ctx.command_path:
            parts.append(f"`{usage}`")
        parts.append(_help(command.help or ""))
        rows = {
            max(parameter.opts, key=len): row
            for parameter in command.params
            if not {*_COMMON} & {*parameter.opts} and (row := _row(ctx, parameter))
        }
        same = {path: {*its.items()} & {*rows.items()} for path, its in earlier.items()}
        path = max(same, key=lambda path: len(same[path]), default="")
        earlier[ctx.command_path] = dict(rows)
        if path and len(same[path]) >= _SHARED:
            shared = [name for name, row in rows.items() if (name, row) in same[path]]
            everything = len(shared) == len(earlier[path])
            rows = {name: row for name, row in rows.items() if name not in shared}
            names = "The options" if everything else ", ".join(f"`{name}`" for name in shared)
            parts.append(f"{names} of `{path}`{', and:' if rows else '.'}")
        if rows:
            parts.append("\n".join(["| option | |", "| --- | --- |", *rows.values()]))
    return "\n\n".join(parts)


def _help(text: str) -> str:
    """Return a help's first paragraph, and those on arguments and exit codes."""
    first, *others = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join([first, *(each for each in others if _KEPT.search(each))])


def _usage(ctx: click.Context) -> str:
    """Return a command's arguments, and the options that need no description of their own."""
    opts = {name for parameter in ctx.command.params for name in parameter.opts}
    common = [f"[{name}]" for name in _COMMON if name in opts]
    pieces = [one for one in ctx.command.collect_usage_pieces(ctx) if one != "[OPTIONS]"]
    return " ".join([ctx.command_path, *common, *pieces])


def _row(ctx: click.Context, parameter: click.Parameter) -> str | None:
    if not isinstance(parameter, click.Option):
        return None
    record = parameter.get_help_record(ctx)
    if record is None:
        return None
    names, text = record
    escaped = names.replace("|", "\\|").replace("INTEGER RANGE", "N")
    return f"| `{escaped}` | {text} |"


def exit_codes() -> dict[int, list[str]]:
    """Return the names of the error classes by exit code, without those that inherit it."""
    from terradask import errors

    found: dict[int, list[str]] = {code: [] for code in _MEANINGS}
    for name in dir(errors):
        kind = getattr(errors, name)
        if kind is errors.TerradaskError or kind.exit_code != kind.__mro__[1].exit_code:
            found.setdefault(kind.exit_code, []).append(name)
    return dict(sorted(found.items()))


def exit_codes_markdown() -> str:
    """Return the table of exit codes."""
    rows = ["| code | meaning | errors, and those derived from them |", "| --- | --- | --- |"]
    for code, names in exit_codes().items():
        rows.append(f"| {code} | {_MEANINGS[code]} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(rows)
