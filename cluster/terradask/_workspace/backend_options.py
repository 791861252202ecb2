"""`set_backend_options`: write a workspace's region, zone and ingress to ``terradask.toml``."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from terradask.errors import InvalidInput, SettingsError
from terradask_stacks.files import write_whole


@dataclass(frozen=True)
class BackendOptionsChange:
    """The changes of `set_backend_options`.

    Parameters
    ----------
    path
        The settings file.
    changes
        ``section.setting`` -> its values before and now; None for an absent one. Empty if nothing
        has changed.
    to_do
        Next steps that bring AWS to the same, a sentence each.
    """

    path: Path
    changes: Mapping[str, tuple[Any, Any]]
    to_do: tuple[str, ...]

    def __str__(self) -> str:
        """Return the changes as text."""
        if not self.changes:
            return f"{self.path}: nothing to change"
        lines = [
            f"  {name}: {_shown(before)} -> {_shown(after)}"
            for name, (before, after) in self.changes.items()
        ]
        return "\n".join([f"{self.path}:", *lines, *(f"next: {step}" for step in self.to_do)])


def set_backend_options(
    *misplaced: Never,
    region_name: str | None = None,
    zone_name: str | None = None,
    ingress: Sequence[Mapping[str, Any]] | None = None,
    firewall: Mapping[str, Any] | None = None,
    settings: str | os.PathLike[str] | None = None,
) -> BackendOptionsChange:
    """Set backend options for all users of a workspace's ``terradask.toml``.

    Comments and order in the file stay. Doesn't call AWS: `to_do` of the result lists the next
    steps. ``backend_options`` of a `Cluster` override the file.

    Parameters
    ----------
    region_name
        AWS region, as ``workspace.region``. By default this and the others stay as they are.
    zone_name
        Availability zone of clusters, as ``cluster.zone_name``.
    ingress
        Rules on who may reach schedulers from outside, as ``network.ingress``, which they replace:
        ``{"ports": [8786, 8787], "cidr": "203.0.113.7/32"}``.
    firewall
        One such rule.
    settings
        The ``terradask.toml``, or its folder. By default the nearest one in the working directory
        or above it.

    Returns
    -------
    BackendOptionsChange
        The changes, and the next steps.

    Raises
    ------
    SettingsError
        If there is no such file, or the changed settings can't be used; the file then stays as it
        is.
    RegionUnusable
        If AWS's SDK knows no such region.
    InvalidInput
        If both `ingress` and `firewall` are given.

    Notes
    -----
    The file is replaced completely, or not at all.

    Permissions needed: none.

    Examples
    --------
    >>> from terradask import set_backend_options
    >>> set_backend_options(region_name="us-west-1", zone_name="us-west-1b")  # doctest: +SKIP
    """
    if misplaced:
        raise InvalidInput(
            "Backend options must be given by name.",
            given=", ".join(map(repr, misplaced)),
            allowed="region_name, zone_name, ingress or firewall, settings",
            advice='such as set_backend_options(region_name="us-west-1"); the AWS account is that '
            "of your credentials",
        )
    from terradask._aws.session import Aws
    from terradask_stacks.backend_options import read_backend_options
    from terradask_stacks.loading import existing_file, settings_in

    sections = read_backend_options(
        {
            "region_name": region_name,
            "zone_name": zone_name,
            "ingress": ingress,
            "firewall": firewall,
        }
    )
    rules = sections.get("cluster", {}).pop("ingress", None)
    if rules is not None:
        # In the workspace's file, rules apply to the network.
        sections["network"] = {"ingress": rules}
    if region_name is not None:
        Aws(region_name).check_region()
    path = existing_file(None if settings is None else Path(settings)).resolve()
    text = path.read_bytes().decode()
    settings_in(text, path)
    current = tomllib.loads(text)
    changes = {
        (section, setting): (current.get(section, {}).get(setting), value)
        for section, content in sections.items()
        for setting, value in content.items()
        if current.get(section, {}).get(setting) != value
    }
    if changes:
        new = edited(text, {place: after for place, (_, after) in changes.items()}, path)
        settings_in(new, path)
        write_whole(path, new, mode=path.stat().st_mode & 0o777)
    named = {".".join(place): change for place, change in changes.items()}
    return BackendOptionsChange(path, named, _to_do(named))


def _to_do(changes: Mapping[str, tuple[Any, Any]]) -> tuple[str, ...]:
    found = []
    if "workspace.region" in changes:
        before, after = changes["workspace.region"]
        left = (
            f"; resources in {before} remain until they are destroyed with that region set"
            if before
            else ""
        )
        found.append(f"terradask apply network, which creates the network of {after}{left}")
    elif "network.ingress" in changes:
        found.append("terradask apply network")
    if "cluster.zone_name" in changes:
        found.append(
            "terradask plan NAME and terradask apply NAME for each deployed cluster to move; new "
            "clusters need nothing"
        )
    return tuple(found)


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)


# ---- the settings file, edited -------------------------------------------------------------------


def edited(text: str, values: Mapping[tuple[str, str], Any], path: Path) -> str:
    """Return a file's text with changed values by section and setting, and the rest unchanged.

    Raises `SettingsError`.
    """
    import tomlkit

    document: Any = tomlkit.parse(text)
    expected: dict[str, Any] = tomllib.loads(text)
    for (section, setting), value in values.items():
        if section not in document:
            document[section] = tomlkit.table()
        present = document[section].get(setting)
        document[section][setting] = (
            tomlkit.item(value) if isinstance(present, tomlkit.items.AoT) and value else value
        )
        expected.setdefault(section, {})[setting] = value
    changed = tomlkit.dumps(document)
    if not reads_as(changed, expected):
        # Some forms of tables can't be extended.
        raise SettingsError.of(
            where=str(path),
            problem="the change needs a rewrite of the whole file",
            given={".".join(place): value for place, value in values.items()},
            advice="write it into the file by hand",
        )
    return changed


def reads_as(text: str, expected: Mapping[str, Any]) -> bool:
    """Return whether a text is valid TOML with exactly this content."""
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False
