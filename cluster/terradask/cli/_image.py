"""``terradask image``: build, list and delete the workspace's own images."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import click

from terradask.cli._invocation import (
    answer,
    asking_options,
    check_answerable,
    confirm,
    interruption,
    json_option,
    load_workspace,
)
from terradask.cli._output import ago, message, table, waiting
from terradask.cli._progress import ProgressLines

if TYPE_CHECKING:
    from terradask_stacks.hardware.architecture import Architecture


@click.group(short_help="Make images with what hosts install at their boot")
def image() -> None:
    """Make images (AMIs) of the workspace's own: Amazon Linux, or the network's given image, with
    the host program, Python and optionally a named environment. Hosts that boot from one install
    nothing of these.

    An image takes effect with network.image = "ami-…" in terradask.toml, terradask apply network,
    and terradask apply of each cluster. Hosts of a newer terradask than their image's install its
    host program as before. Building and deleting need the permissions of `setup`.
    """


@image.command(short_help="Make an image")
@click.option("--environment", metavar="NAME", help="A named environment that the image gets.")
@click.option(
    "--arch",
    type=click.Choice(["x86_64", "arm64"]),
    default="x86_64",
    show_default=True,
    help="Processor architecture of its hosts.",
)
@click.option(
    "--from",
    "base",
    metavar="AMI",
    help="The image to start from. By default the network's given one, or the newest Amazon Linux "
    "2023.",
)
@click.option(
    "--type",
    "instance_type",
    metavar="TYPE",
    help="Type of the instance that becomes the image. By default m6i.large or m6g.large.",
)
@json_option
def build(environment: str | None, arch: str, base: str | None, instance_type: str | None) -> None:
    """Make an image: an instance boots as a scheduler's host does, installs, removes what names it,
    and powers off; EC2 makes the image of its disk. Takes some minutes, in which the instance
    costs. Prints the setting that names the image.

    After an interruption the next build ends what is left.
    """
    from terradask._workspace.image_build import ImageBuild

    progress = ProgressLines()
    workspace = load_workspace(progress=progress)
    architecture = cast("Architecture", arch)
    making = ImageBuild(workspace.images, architecture, environment, base, instance_type)
    with progress.live(), interruption("the next terradask image build ends what is left"):
        made = making.run()
    answer(made.as_dict(), made.id)
    setting = workspace.images.setting(made)
    cost = f"at most {made.most_monthly_usd} USD" if made.most_monthly_usd else "an unknown price"
    message(f"its snapshot costs by the blocks that it has: {cost} a month")
    message(f'next: {setting} = "{made.id}" in terradask.toml, then: terradask apply network')


@image.command("list", short_help="List the workspace's images")
@json_option
@waiting("reading the images")
def list_() -> None:
    """List the workspace's own images, the newest first, with what uses each and the most that its
    snapshot costs a month.
    """
    from terradask._workspace.images import monthly_text

    images = load_workspace().images
    found = images.find()
    per_gib = images.monthly_usd_per_gib() if found else None
    priced = [replace(one, most_monthly_usd=monthly_text(one, per_gib)) for one in found]
    users = {one.id: images.users(one.id) for one in priced}
    rows: list[list[Any]] = [
        [
            one.id,
            one.architecture,
            one.state,
            ago(one.created_at),
            one.version,
            one.python,
            one.environment,
            one.most_monthly_usd,
            ", ".join(users[one.id]),
        ]
        for one in priced
    ]
    heads = ["id", "architecture", "state", "made", "terradask", "python", "environment"]
    answer(
        [{**one.as_dict(), "users": users[one.id]} for one in priced],
        table([*heads, "$ a month at most", "used by"], rows) if rows else None,
        otherwise="no images; terradask image build makes one",
    )


@image.command(short_help="Delete an image and its snapshots")
@click.argument("image_id", metavar="AMI")
@asking_options
def delete(image_id: str) -> None:
    """Deregister the image AMI and delete its snapshots. Refused while the settings, the lock, the
    deployed network or a cluster uses it. Running hosts keep their disks.
    """
    check_answerable(f"image delete {image_id}")
    images = load_workspace().images
    confirm(f"Delete image {image_id} and its snapshots?")
    deleted = images.delete(image_id)
    answer(deleted.as_dict(), otherwise=f"image {image_id}: deleted")
