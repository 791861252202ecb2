"""``terradask completion`` and the completion of stacks, clusters and other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from terradask.cli._invocation import FOLDER
from terradask_modules.names import OFFER_STACK_PREFIX


@click.command(short_help="Print the shell's completion script")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    bash and zsh: eval "$(terradask completion bash)" in the shell's start file; fish: terradask
    completion fish | source.
    """
    from terradask.cli._app import command

    kind = get_completion_class(shell)
    if kind is None:
        raise click.BadParameter(f"no completion for {shell}")
    click.echo(kind(command, {}, "terradask", "_TERRADASK_COMPLETE").source())


def completing(
    words: Callable[[click.Context], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes a parameter with these words."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        return sorted(word for word in words(ctx) if word.startswith(incomplete))

    return complete


def declared(ctx: click.Context, section: str) -> Iterable[str]:
    """Return the names of tables in a section of terradask.toml."""
    import tomllib

    folder = _folder(ctx)
    files = (parent / "terradask.toml" for parent in (folder, *folder.parents))
    found = next((file for file in files if file.is_file()), None)
    tables: Any = None
    try:
        if found is not None:
            tables = tomllib.loads(found.read_text(encoding="utf-8")).get(section)
    except (OSError, ValueError):
        pass
    return tables if isinstance(tables, dict) else ()


def _stacks(ctx: click.Context) -> set[str]:
    """Return the locally declared or synthesised stacks, without a call to AWS."""
    synthesised = {
        path.name
        for path in (_folder(ctx) / "cdktf.out/stacks").glob("*")
        if path.is_dir() and not path.name.startswith(OFFER_STACK_PREFIX)
    }
    return {"network", *synthesised, *declared(ctx, "clusters")}


def _folder(ctx: click.Context) -> Path:
    return ctx.meta.get(FOLDER) or Path.cwd()


complete_stack = completing(_stacks)
complete_cluster = completing(lambda ctx: _stacks(ctx) - {"network"})
complete_offer = completing(lambda ctx: declared(ctx, "offers"))

#: Adds ``--offer``.
offer_option = click.option(
    "--offer",
    metavar="NAME",
    shell_complete=complete_offer,
    help="Offer whose settings the cluster has, of section [offers].",
)

cluster_argument = click.argument("name", shell_complete=complete_cluster)


def complete_type(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an instance type, without a call to AWS: first its family, as a pattern."""
    from terradask._aws.known_types import known_types

    named = known_types() if "." in incomplete else ()
    families = {f"{one.partition('.')[0]}.*" for one in known_types()}
    return sorted(one for one in {*families, *named} if one.startswith(incomplete))
