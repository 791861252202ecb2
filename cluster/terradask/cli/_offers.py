"""``terradask offers``: saved settings of clusters, and what may be chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terradask.cli._completion import complete_offer
from terradask.cli._invocation import answer, json_option, load_workspace
from terradask.cli._output import labelled, message, table, waiting

if TYPE_CHECKING:
    from terradask._workspace.offers import Offer


@click.command(short_help="Show saved settings of clusters, and what may be chosen")
@click.argument("name", required=False, shell_complete=complete_offer)
@json_option
@waiting("reading the offers")
def offers(name: str | None) -> None:
    """List the offers of section [offers]: what each is for, and what its clusters may choose. With
    NAME, show all of that offer.

    Calls no AWS. `terradask plan --offer NAME` shows an offer's resources and cost at its bounds.
    """
    from terradask._workspace.offers import HEADS

    found = load_workspace().offers
    if name is not None:
        one = found.named(name)
        answer(one.as_dict(), _text(one))
        message(f"terradask plan --offer {name} shows the largest cluster, and its cost")
        return
    answer(
        [one.as_dict() for one in found.values()],
        table(HEADS, found.rows()) if found else None,
        otherwise="no offers; a table [offers.NAME] in terradask.toml makes one",
    )


def _text(one: Offer) -> str:
    facts: list[tuple[str, str | None]] = [("offer", one.name), ("for", one.description or None)]
    facts.append(("use", f"Cluster(offer={one.name!r})"))
    rows = [
        [
            name,
            ", ".join(map(str, value)) if isinstance(value, list) else value,
            one.choose.get(name),
        ]
        for name, value in one.settings.items()
    ]
    return "\n".join([labelled(facts), "", table(["setting", "value", "to choose"], rows)])
