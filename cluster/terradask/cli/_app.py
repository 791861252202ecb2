"""``command``: the root command, whose groups import commands when called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

from terradask.cli._invocation import FOLDER, Invocation, flag, invocation_of


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def __init__(
        self, *args: Any, groups: Mapping[str, Mapping[str, str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.groups = dict(groups or {})
        self.lazy = {name: place for group in self.groups.values() for name, place in group.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return [*self.lazy, *self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below headings."""
        if not self.groups:
            super().format_commands(ctx, formatter)
            return
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        width = max(map(len, commands))
        for heading, names in self.groups.items():
            rows = [
                (name.ljust(width), found.get_short_help_str(limit=200))
                for name in names
                if (found := commands[name]) is not None and not found.hidden
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        target = self.lazy.get(cmd_name)
        if target is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = target.partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; suggest the nearest name for an unknown one."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], known, 1)
            meant = (
                f" Did you mean {near[0]!r}?" if near else f" The commands are {', '.join(known)}."
            )
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)


def _debug(ctx: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    invocation_of(ctx).debug = invocation_of(ctx).debug or value
    return value


def _change_folder(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[str, ...]
) -> None:
    if folders:
        ctx.call_on_close(partial(os.chdir, Path.cwd()))
    for folder in folders:
        # Relative to the previous one, as with make and git, also for completion.
        try:
            os.chdir(folder)
        except OSError as error:
            raise click.BadParameter(f"{folder!r}: {error.strerror}", ctx, parameter) from error
    # For the shell's completion, which runs after this context is closed.
    ctx.meta[FOLDER] = Path.cwd()


#: Heading of the help -> command -> its module and name.
_COMMANDS: dict[str, dict[str, str]] = {
    "Begin": {
        "init": "terradask.cli._init:init",
        "doctor": "terradask.cli._doctor:doctor",
        "demo": "terradask.cli._demo:demo",
        "sim": "terradask.cli._sim:sim",
        "completion": "terradask.cli._completion:completion",
    },
    "Plan and apply": {
        "plan": "terradask.cli._plan:plan",
        "apply": "terradask.cli._apply:apply",
        "drift": "terradask.cli._plan:drift",
        "destroy": "terradask.cli._apply:destroy",
        "synth": "terradask.cli._plan:synth",
    },
    "Clusters": {
        "list": "terradask.cli._deployments:list_deployments",
        "status": "terradask.cli._deployments:status",
        "start": "terradask.cli._deployments:start",
        "stop": "terradask.cli._deployments:stop",
        "scale": "terradask.cli._scaling:scale",
        "adapt": "terradask.cli._scaling:adapt",
        "dashboard": "terradask.cli._dashboard:dashboard",
        "jupyter": "terradask.cli._dashboard:jupyter",
        "reach": "terradask.cli._reach:reach",
    },
    "Jobs": {
        "run": "terradask.cli._run_command:run_command",
        "batch": "terradask.cli._run_command:batch",
        "job": "terradask.cli._job:job",
    },
    "What happened": {
        "logs": "terradask.cli._logs:logs",
        "debug": "terradask.cli._debug:debug",
        "report": "terradask.cli._cost:report",
        "metrics": "terradask.cli._dashboard:metrics",
        "cost": "terradask.cli._cost:cost",
        "history": "terradask.cli._cost:history",
    },
    "Machines and limits": {
        "types": "terradask.cli._types:types",
        "explain": "terradask.cli._types:explain",
        "quotas": "terradask.cli._types:quotas",
        "limits": "terradask.cli._limits:limits",
        "offers": "terradask.cli._offers:offers",
    },
    "Software": {
        "software": "terradask.cli._software:software",
        "env": "terradask.cli._env:env",
        "image": "terradask.cli._image:image",
    },
    "Permissions and repair": {
        "iam": "terradask.cli._iam:iam",
        "sweep": "terradask.cli._sweep:sweep",
        "unlock": "terradask.cli._sweep:unlock",
        "repair-state": "terradask.cli._sweep:repair_state",
    },
}


@click.group(
    name="terradask",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    groups=_COMMANDS,
    epilog="Results go to standard output, progress and errors to standard error. "
    "Exit codes: 0 done, 1 failed, 2 bad input; docs/cli.md lists them all.",
)
@click.option(
    "-C",
    "folders",
    metavar="DIR",
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=_change_folder,
    help="Run as if started in DIR, such as one folder per workspace of a repository.",
)
@flag(
    "--debug",
    expose_value=False,
    callback=_debug,
    help="Show a traceback with an error, as TERRADASK_DEBUG=1 does.",
)
@click.version_option(None, "--version", package_name="terradask", message="terradask %(version)s")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Dask clusters in your own AWS account, as Terraform you can review."""
    ctx.ensure_object(Invocation)
