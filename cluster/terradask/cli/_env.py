"""``terradask env``: create, build, list and delete the workspace's named environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from terradask.cli._completion import completing, declared
from terradask.cli._invocation import (
    answer,
    check_answerable,
    confirm,
    current,
    json_option,
    load_workspace,
    yes_option,
)
from terradask.cli._output import ago, message, table, waiting

if TYPE_CHECKING:
    from terradask._software.named_environments import NamedEnvironment
    from terradask._workspace.environments import Environments


NAME = click.argument(
    "name", shell_complete=completing(lambda ctx: {"default", *declared(ctx, "environments")})
)

#: Message about an environment whose declaration has changed.
_DIFFERS = (
    "environment {name}: terradask.toml, or the file that it names, has changed since it was "
    "created: terradask env create {name} updates the bucket"
)


@click.group(short_help="Manage environments that clusters share")
def env() -> None:
    """Manage environments that the workspace's clusters share: software = "NAME" in [cluster], or
    Cluster(software="NAME").

    [environments.NAME] in terradask.toml lists its packages. All users' hosts run what is in the
    bucket, so creating, building and deleting need the permissions of `setup`.
    """


@env.command(short_help="Resolve an environment and store it in the bucket")
@NAME
@json_option
def create(name: str) -> None:
    """Resolve the environment NAME for hosts, from [environments.NAME], and store its versions and
    hashes in the workspace's bucket. Running clusters keep the earlier ones.

    The environment `default`, with NumPy, pandas and PyArrow, needs no table.
    """
    found, changed = _environments().create(name)
    answer({**found.as_dict(), "changed": changed}, _lines(found))
    if current().as_json:
        return
    message(f"environment {name}: {'created' if changed else 'is unchanged'}")
    if changed:
        message(
            f"next: Cluster(software={name!r}); after terradask env build {name} it starts faster"
        )


@env.command(short_help="Build an environment on a host")
@NAME
@json_option
def build(name: str) -> None:
    """Build the environment NAME on a host and keep its archive for 30 days. Clusters that use it
    start without building.

    Deploys a cluster without workers, env-NAME, and destroys it after the build. Nothing is
    uploaded from this machine.
    """
    from terradask import Cluster

    workspace = load_workspace()
    environments = workspace.environments
    found = environments.stored.read(name)
    # Before the build, which needs the permission to write.
    environments.stored.check_writable(found)
    if environments.differs(found):
        message(_DIFFERS.format(name=name))
    message(f"environment {name}: a scheduler's host builds it")
    with Cluster(
        f"env-{name}"[:32].rstrip("-"),
        n_workers=0,
        software=name,
        package_sync=False,
        local_modules=False,
        arm=found.architecture == "arm64",
        show_widget=False,
    ) as cluster:
        archive = environments.keep_built(workspace.deployment(str(cluster.name)), name)
    where, megabytes = f"s3://{environments.bucket}/{archive.key}", archive.size / 1e6
    answer(
        {"name": name, "key": archive.key, "size": archive.size},
        otherwise=f"environment {name}: {megabytes:.0f} MB, {where}",
    )


@env.command("list", short_help="List the environments in the bucket")
@json_option
@waiting("reading the environments")
def list_() -> None:
    """List the environments in the workspace's bucket, and those that are only declared."""
    environments = _environments()
    names = environments.stored.names()
    found = [environments.stored.read(name) for name in names]
    declared = [name for name in environments.declared() if name not in names]
    differing = [each.name for each in found if environments.differs(each)]
    states = dict.fromkeys(differing, "changed")
    rows: list[list[Any]] = [
        [e.name, e.python, e.architecture, len(e.versions), ago(e.created_at), e.sha256[:12]]
        for e in found
    ]
    rows += [[name, None, None, None, "declared", None] for name in declared]
    heads = ["name", "python", "architecture", "packages", "created", "sha256"]
    answer(
        [
            *({**e.as_dict(), "state": states.get(e.name, "created")} for e in found),
            *({"name": name, "state": "declared"} for name in declared),
        ],
        table(heads, rows) if rows else None,
        otherwise="no environments; terradask env create default makes one with NumPy and pandas",
    )
    for name in () if current().as_json else differing:
        message(_DIFFERS.format(name=name))


@env.command(short_help="Show the packages of an environment")
@NAME
@json_option
def inspect(name: str) -> None:
    """Show the packages of the environment NAME, as hosts install them."""
    found = _environments().stored.read(name)
    answer(found.as_dict(), _lines(found))
    if not current().as_json:
        message(
            f"Python {found.python} on {found.architecture}, created {ago(found.created_at)} "
            f"ago by {found.created_by}"
        )


@env.command(short_help="Delete an environment")
@NAME
@yes_option
def delete(name: str) -> None:
    """Delete the environment NAME from the bucket. Running clusters keep theirs; others that name
    it no longer start.
    """
    check_answerable(f"env delete {name}")
    environments = _environments()
    environments.stored.read(name)
    confirm(f"Delete environment {name}?")
    environments.stored.delete(name)
    message(f"environment {name}: deleted")


def _environments() -> Environments:
    return load_workspace().environments


def _lines(found: NamedEnvironment) -> str:
    return "\n".join(f"{name}=={version}" for name, version in sorted(found.versions.items()))
