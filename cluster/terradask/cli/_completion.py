"""``terradask completion`` and the completion of stacks, clusters and other names."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

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


def complete_stack(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a locally declared or synthesised stack, without a call to AWS."""
    stacks = (_folder(ctx) / "cdktf.out/stacks").glob("*")
    synthesised = {
        path.name
        for path in stacks
        if path.is_dir() and not path.name.startswith(OFFER_STACK_PREFIX)
    }
    return complete_declared(ctx, "clusters", {"network", *synthesised}, incomplete)


def complete_cluster(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a cluster, like :func:`complete_stack`."""
    return [item for item in complete_stack(ctx, parameter, incomplete) if item.value != "network"]


def complete_offer(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of an offer in terradask.toml."""
    return complete_declared(ctx, "offers", set(), incomplete)


#: Adds ``--offer``.
offer_option = click.option(
    "--offer",
    metavar="NAME",
    shell_complete=complete_offer,
    help="Offer whose settings the cluster has, of section [offers].",
)

cluster_argument = click.argument("name", shell_complete=complete_cluster)


def complete_type(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete an instance type, without a call to AWS: first its family, as a pattern."""
    from terradask._aws.known_types import known_types

    named = known_types() if "." in incomplete else ()
    families = {f"{one.partition('.')[0]}.*" for one in known_types()}
    found = sorted(one for one in {*families, *named} if one.startswith(incomplete))
    return [CompletionItem(one) for one in found]


def complete_declared(
    ctx: click.Context, section: str, others: set[str], incomplete: str
) -> list[CompletionItem]:
    """Complete a name of a table in a section of terradask.toml, or one of `others`."""
    import tomllib

    folder = _folder(ctx)
    files = (parent / "terradask.toml" for parent in (folder, *folder.parents))
    found = next((file for file in files if file.is_file()), None)
    try:
        text = "" if found is None else found.read_text(encoding="utf-8")
        declared = tomllib.loads(text).get(section)
    except (OSError, ValueError):
        declared = None
    names = others.union(declared if isinstance(declared, dict) else ())
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _folder(ctx: click.Context) -> Path:
    return ctx.meta.get(FOLDER) or Path.cwd()
