"""``terradask.offers``: the offers of the settings, to look at and to choose from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._common.pages import html_page
from terradask._common.text_table import table
from terradask.errors import InvalidInput

if TYPE_CHECKING:
    from terradask_stacks.settings import Settings


@dataclass(frozen=True)
class Offer:
    """Saved settings of clusters, and their choices: ``Cluster(offer=NAME, ...)``.

    Parameters
    ----------
    name, description
        Its name, and what it is for.
    settings
        The settings that its clusters have, if nothing is chosen.
    choose
        Setting -> the allowed values, as text: ``1 to 8``.
    largest
        The settings of `choose` at their upper bounds, as ``terradask plan --offer NAME`` plans
        them.
    unbounded
        The settings of `choose` without an upper bound.
    max_workers
        Most workers of one of its clusters, without those of named groups.
    """

    name: str
    description: str
    settings: Mapping[str, Any]
    choose: Mapping[str, str]
    largest: Mapping[str, Any]
    unbounded: tuple[str, ...]
    max_workers: int

    @property
    def choices_text(self) -> str:
        """Every choice, in one line."""
        return "; ".join(f"{name}: {text}" for name, text in self.choose.items())

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {**vars(self), "unbounded": list(self.unbounded)}


@dataclass(frozen=True, repr=False)
class Offers(Mapping[str, Offer]):
    """Offers by name; notebooks show them as a table, and complete the names."""

    _offers: Mapping[str, Offer] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Offer:
        return self._offers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._offers)

    def __len__(self) -> int:
        return len(self._offers)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._offers)

    def named(self, name: str) -> Offer:
        """Return an offer. Raises `InvalidInput` if there is none of this name."""
        if name not in self._offers:
            from terradask_stacks.findings import nearest

            near = nearest(name, self._offers)
            raise InvalidInput(
                "There is no such offer.",
                given=name,
                allowed=", ".join(self._offers) or "no offer",
                advice=f"did you mean {near}?"
                if near
                else "terradask offers lists them; [offers.NAME] in terradask.toml makes one",
            )
        return self._offers[name]

    def rows(self) -> list[list[object]]:
        """Return the offers' cells, as `HEADS` names them."""
        return [
            [one.name, one.description, one.max_workers, one.choices_text]
            for one in self._offers.values()
        ]

    def __repr__(self) -> str:
        return table(HEADS, self.rows()) if self._offers else "Offers()"

    def _repr_html_(self) -> str:
        return html_page("table", heads=HEADS, rows=self.rows())


#: The columns of `Offers.rows`.
HEADS = ("offer", "description", "max workers", "to choose")


def find_offers(settings: Settings) -> Offers:
    """Return the offers of checked settings, sorted by name."""
    if not settings.offers:
        return Offers()
    from terradask_stacks.offers import at_most, choices_of
    from terradask_stacks.topics import by_topic

    found = {}
    for name, offer in sorted(settings.offers.items()):
        choices = choices_of(offer)
        shown = {*offer.fixed, *choices, "max_workers"}
        values = offer.cluster.model_dump(mode="json", include=shown)
        found[name] = Offer(
            name,
            offer.description,
            settings={key: values[key] for keys in by_topic(values).values() for key in keys},
            choose={key: str(choice) for key, choice in choices.items()},
            largest=at_most(offer),
            unbounded=tuple(key for key, choice in choices.items() if choice.is_open),
            max_workers=offer.cluster.max_workers,
        )
    return Offers(found)


def offers(settings: str | os.PathLike[str] | None = None) -> Offers:
    """Return the offers of the settings, without a call to AWS.

    Parameters
    ----------
    settings
        Folder or ``terradask.toml`` to load settings from. By default the nearest one in the
        working directory or above it.

    Returns
    -------
    Offers
        A mapping of name -> `Offer`. Notebooks show it as a table, and complete its names.

    Raises
    ------
    SettingsError
        If the settings can't be used.

    Examples
    --------
    >>> import terradask
    >>> terradask.offers()                                               # doctest: +SKIP
    OFFER      DESCRIPTION  MAX WORKERS  TO CHOOSE
    gpu-small  one GPU      8            n_workers: 1 to 8
    >>> terradask.Cluster(offer="gpu-small", n_workers=8)                # doctest: +SKIP
    """
    from terradask._workspace.context import SettingsSource

    source = SettingsSource(None if settings is None else Path(settings), {})
    return find_offers(source.load().settings)
