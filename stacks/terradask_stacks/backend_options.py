"""Convert backend options, a dictionary, to settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask_modules.errors import InvalidInput
from terradask_stacks.findings import nearest

#: Option -> its section and setting.
_SETTINGS = {
    "region_name": ("workspace", "region"),
    "zone_name": ("cluster", "zone_name"),
    "firewall": ("cluster", "ingress"),
    "ingress": ("cluster", "ingress"),
}

#: Short names that Dask's configuration may use.
_SHORT = {"region": "region_name", "zone": "zone_name"}


def read_backend_options(options: Any, *, short_names: bool = False) -> dict[str, dict[str, Any]]:
    """Return backend options as sections of settings, whose values are checked when settings are
    loaded: ``region_name``; ``zone_name``; ``ingress``, a list of rules ``{"ports": [8786, 8787],
    "cidr": "203.0.113.7/32"}``; ``firewall``, one such rule. None, and options that are None, have
    no effect. With `short_names`, ``region`` and ``zone`` are also allowed.

    Raises `InvalidInput` for an unknown option, with the nearest valid one, for invalid rules, and
    for `firewall` and `ingress` together.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidInput(
            "backend options are a dictionary",
            given=options,
            allowed=", ".join(_SETTINGS),
            advice="name each option",
        )
    short = _SHORT if short_names else {}
    said: dict[str, Any] = {
        str(short.get(name, name)): value for name, value in options.items() if value is not None
    }
    for name, value in said.items():
        if name not in _SETTINGS:
            near = _SHORT.get(name) or nearest(str(name), _SETTINGS)
            raise InvalidInput(
                f"there is no backend option {name!r}",
                given=value,
                allowed=", ".join(_SETTINGS),
                advice=f"did you mean {near}?" if near else "leave it out",
            )
    if "firewall" in said and "ingress" in said:
        raise InvalidInput(
            "`firewall` is one rule of `ingress`: only one of them can be given.",
            given=f"firewall={said['firewall']!r}, ingress={said['ingress']!r}",
            allowed="one of them",
            advice="put the rule of `firewall` into the list `ingress`",
        )
    found: dict[str, dict[str, Any]] = {}
    for name, value in said.items():
        section, setting = _SETTINGS[name]
        found.setdefault(section, {})[setting] = (
            _rules(name, value) if setting == "ingress" else value
        )
    return found


def _rules(option: str, value: Any) -> list[dict[str, Any]]:
    rules = [value] if isinstance(value, Mapping) else value
    if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, Mapping) for rule in rules):
        raise InvalidInput(
            f"backend option {option!r} contains no rules",
            given=value,
            allowed='{"ports": [8786, 8787], "cidr": "203.0.113.7/32"}, or a list of such rules',
            advice="name the ports, and the addresses that clients come from",
        )
    return [dict(rule) for rule in rules]
