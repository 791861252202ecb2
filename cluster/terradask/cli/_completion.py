"""``terradask completion``: the script that completes commands, options and stacks."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from terradask.cli._invocation import FOLDER


@click.command(short_help="Print the shell's completion script")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    bash and zsh: eval "$(terradask completion bash)" in the shell's start file; fish: terradask
    completion fish | source.
    """
    from terradask.cli._app import command

    kind = get_completion_class(shell)
    if kind is None:
        raise click.BadParameter(f"no completion for {shell}")
    click.echo(kind(command, {}, "terradask", "_TERRADASK_COMPLETE").source())


def complete_stack(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a stack from what is declared or synthesised here, without a call of AWS."""
    folder: Path = ctx.meta.get(FOLDER) or Path.cwd()
    names = (
        {"network"}
        | {path.name for path in (folder / "cdktf.out/stacks").glob("*") if path.is_dir()}
        | _declared(folder)
    )
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_cluster(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a cluster, as :func:`complete_stack` does."""
    return [item for item in complete_stack(ctx, parameter, incomplete) if item.value != "network"]


def _declared(folder: Path) -> set[str]:
    import tomllib

    files = (parent / "terradask.toml" for parent in (folder, *folder.parents))
    found = next((file for file in files if file.is_file()), None)
    try:
        clusters = (
            tomllib.loads(found.read_text(encoding="utf-8")).get("clusters")
            if found is not None
            else None
        )
    except (OSError, ValueError):
        return set()
    return set(clusters) if isinstance(clusters, dict) else set()
