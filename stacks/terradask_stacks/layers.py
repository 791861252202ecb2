"""Merge layers of settings; each value keeps its origin."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from terradask_stacks.errors import Finding
from terradask_stacks.findings import did_you_mean, nearest
from terradask_stacks.settings import (
    ClusterSettings,
    EnvironmentSettings,
    OfferSettings,
    Settings,
)
from terradask_stacks.settings.base import Section
from terradask_stacks.settings.hardware import EXCLUDED_BY, EXCLUDED_BY_IN_GROUP
from terradask_stacks.settings.limits import LimitSettings
from terradask_stacks.settings.offers import OFFER_KEYS
from terradask_stacks.settings.worker_groups import MOST_WORKERS

PREFIX = "TERRADASK_"
_RESERVED_PREFIXES = ("TERRADASK_HOST_", "TERRADASK_SIM_")

#: The section of declared clusters: a table of tables, each with the settings of ``[cluster]``.
DECLARED = "clusters"

#: The section of offers: tables with settings of ``[cluster]``, and keys of their own.
OFFERS = "offers"

#: Sections that are tables of tables -> the settings of each.
TABLES: dict[str, type[Section]] = {
    DECLARED: ClusterSettings,
    OFFERS: OfferSettings,
    "environments": EnvironmentSettings,
}

#: The setting of groups of workers: a table of tables too.
_GROUPS = "worker_groups"

#: A request for the best zone overrides a zone that an earlier layer names.
_EXCLUDED_BY = {**EXCLUDED_BY, "use_best_zone": ("zone_name",)}

Origin = Callable[[str], str]


class Layers:
    """Values of settings, the later over the earlier.

    A declared cluster is ``[cluster]`` without arguments, then its own table, then the arguments.
    An offer is the ``[cluster]`` below `begin_choices`, then its own table. A cluster of an offer
    is that offer, then the ``[cluster]`` above `begin_choices`, its own table, and the arguments.
    Environment variables in `reserved` have terradask's prefix and are no settings.
    """

    def __init__(self, *, reserved: tuple[str, ...] = ()) -> None:
        self.origins: dict[str, str] = {}
        self.findings: list[Finding] = []
        self._reserved = reserved
        self._values: dict[str, dict[str, Any]] = {}
        self._declared: dict[str, dict[str, Any]] = {}
        self._above: dict[str, Any] = {}
        self._below_offers: dict[str, Any] = {}
        self._chosen: dict[str, Any] | None = None

    @property
    def arguments(self) -> frozenset[str]:
        """The settings of ``[cluster]`` that are arguments of a call."""
        return frozenset(self._above)

    def begin_choices(self) -> None:
        """Let what is added from now on to ``[cluster]`` be a choice, for clusters of an offer."""
        self._below_offers = dict(self._values.get("cluster", {}))
        self._chosen = {}

    def values(self) -> dict[str, Any]:
        """Return the merged layers, for `Settings`; afterwards the origins of declared clusters are
        known.
        """
        values: dict[str, Any] = {
            section: dict(content) for section, content in self._values.items()
        }
        below = self._values.get("cluster", {})
        bases = self._offers(values)
        if self._declared:
            # A declared cluster has the offer that its table names.
            above = {key: value for key, value in self._above.items() if key != "offer"}
            values[DECLARED] = {
                name: self._cluster(bases, own, above) for name, own in self._declared.items()
            }
            for name, own in self._declared.items():
                self._inherit_origins(name, own)
        if self._above or below:
            values["cluster"] = self._cluster(bases, self._above)
        return values

    def _offers(self, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Put offers into the form of their model; return their clusters' settings, by name."""
        below = {key: value for key, value in self._below_offers.items() if key != "offer"}
        bases: dict[str, dict[str, Any]] = {}
        for name, own in values.get(OFFERS, {}).items():
            fixed = {key: value for key, value in own.items() if key not in OFFER_KEYS}
            bases[name] = _merged(below, fixed)
            choose = own.get("choose")
            if "max_workers" not in fixed and not (
                isinstance(choose, Mapping) and "max_workers" in choose
            ):
                # Until the offer's bounds are read: they are the first to refuse a number.
                bases[name]["max_workers"] = MOST_WORKERS
            values[OFFERS][name] = {
                **{key: own[key] for key in OFFER_KEYS if key in own},
                "cluster": bases[name],
                "fixed": sorted(fixed),
            }
            for setting, origin in list(self.origins.items()):
                section, _, key = setting.partition(".")
                of_offer = setting.removeprefix(f"{OFFERS}.{name}.")
                if of_offer != setting and of_offer.partition(".")[0] in fixed:
                    self.origins[f"{OFFERS}.{name}.cluster.{of_offer}"] = origin
                elif section == "cluster" and key.partition(".")[0] not in fixed:
                    self.origins.setdefault(f"{OFFERS}.{name}.cluster.{key}", origin)
        return bases

    def _cluster(
        self, bases: Mapping[str, Mapping[str, Any]], *layers: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Lay the layers of one cluster over ``[cluster]``, or over the offer that they name."""
        below = self._values.get("cluster", {})
        offer = next(
            (layer["offer"] for layer in (*layers[::-1], below) if layer.get("offer")), None
        )
        base = bases.get(offer) if isinstance(offer, str) else None
        if base is not None:
            # The offer's is known once its bounds are read.
            below = {**base, "offer": offer, "max_workers": MOST_WORKERS}
            layers = (self._chosen or {}, *layers)
        result = dict(below)
        for layer in layers:
            result = _merged(result, layer)
        return result

    def add(
        self, layer: Mapping[str, Any], origin: Origin, *, above_declared: bool = False
    ) -> None:
        """Lay values, by section, over the earlier ones. `origin` returns where a value came from,
        given its name; with `above_declared`, the section ``cluster`` overrides the tables of
        declared clusters.
        """
        sections = Settings.model_fields
        self._move(layer.get("workspace"))
        for section, content in layer.items():
            if section not in sections:
                self._unknown(
                    origin(section),
                    f"there is no section {section!r}",
                    section,
                    list(sections),
                    content,
                )
            elif content is None:
                continue
            elif not isinstance(content, Mapping):
                self._no_table(origin(section), content, section)
            elif section in TABLES:
                own = (
                    self._declared if section == DECLARED else self._values.setdefault(section, {})
                )
                self._add_tables(section, own, content, origin)
            else:
                target = (
                    self._above
                    if above_declared and section == "cluster"
                    else self._values.setdefault(section, {})
                )
                _take_back(target, content, _EXCLUDED_BY)
                for key, value in content.items():
                    self._set(target, section, key, value, origin)
                if section == "cluster" and self._chosen is not None and not above_declared:
                    known = {key: value for key, value in content.items() if key in target}
                    self._chosen = _merged(self._chosen, known)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Lay ``TERRADASK_<SECTION>__<KEY>`` variables over the earlier values."""
        layer: dict[str, dict[str, Any]] = {}
        variables: dict[str, str] = {}
        for variable, text in sorted(environ.items()):
            if (
                not variable.startswith(PREFIX)
                or variable in self._reserved
                or variable.startswith(_RESERVED_PREFIXES)
            ):
                continue
            section, separator, key = variable.removeprefix(PREFIX).lower().partition("__")
            if not separator or section not in _sections() or key not in _fields_of(section):
                self._unknown(
                    variable,
                    "no setting has this variable",
                    variable,
                    [*_variables(), *self._reserved],
                    text,
                )
                continue
            layer.setdefault(section, {})[key] = _parse(text, _fields_of(section)[key])
            variables[f"{section}.{key}"] = variable
        self.add(layer, lambda name: variables[".".join(name.split(".")[:2])])

    def _move(self, workspace: Any) -> None:
        """Take back the zones of lower layers, where a layer names another region than theirs."""
        region = workspace.get("region") if isinstance(workspace, Mapping) else None
        if not isinstance(region, str):
            return
        clusters = {f"{DECLARED}.{name}": own for name, own in self._declared.items()}
        for section, own in {"cluster": self._values.get("cluster", {}), **clusters}.items():
            if not str(own.get("zone_name") or region).startswith(region):
                del own["zone_name"]
                self.origins.pop(f"{section}.zone_name", None)
        network = self._values.get("network", {})
        zones = network.get("zones")
        if isinstance(zones, list) and not any(str(zone).startswith(region) for zone in zones):
            del network["zones"]
            self.origins.pop("network.zones", None)

    def _add_tables(
        self, kind: str, own: dict[str, Any], tables: Mapping[str, Any], origin: Origin
    ) -> None:
        for name, content in tables.items():
            section = f"{kind}.{name}"
            if not isinstance(content, Mapping):
                self._no_table(origin(section), content, section)
                continue
            target = own.setdefault(str(name), {})
            for key, value in content.items():
                self._set(target, section, key, value, origin)

    def _set(
        self, target: dict[str, Any], section: str, key: str, value: Any, origin: Origin
    ) -> None:
        name = f"{section}.{key}"
        fields = _fields_of(section)
        if key not in fields:
            elsewhere = [f"{other}.{key}" for other in _sections() if key in _fields_of(other)]
            self._unknown(
                origin(name),
                f"[{section}] has no setting {key!r}",
                key,
                elsewhere or list(fields),
                value,
                otherwise=_instead(section, key),
            )
            return
        present = target.get(key)
        target[key] = (
            _merged(present, value, key)
            if isinstance(present, Mapping) and isinstance(value, Mapping)
            else value
        )
        self.origins[name] = origin(name)
        if isinstance(value, Mapping):
            tables = key in (_GROUPS, "choose") or section == "limits"
            self.origins.update(
                {f"{name}.{item}": origin(f"{name}.{item}" if tables else name) for item in value}
            )

    def _inherit_origins(self, name: str, own: Mapping[str, Any]) -> None:
        """Record the origins of the values that a declared cluster takes from ``[cluster]``."""
        for setting, origin in list(self.origins.items()):
            section, _, key = setting.partition(".")
            first = key.partition(".")[0]
            if section == "cluster" and (first in self._above or first not in own):
                self.origins[f"{DECLARED}.{name}.{key}"] = origin

    def _no_table(self, where: str, given: Any, section: str) -> None:
        fields = (
            f"a table for each {section.removesuffix('s')}"
            if section in TABLES
            else ", ".join(_fields_of(section))
        )
        self.findings.append(
            Finding(
                where=where,
                problem="a section is a table of settings",
                given=given,
                allowed=f"[{section}] with {fields}",
            )
        )

    def _unknown(
        self,
        where: str,
        problem: str,
        name: str,
        known: list[str],
        given: Any,
        *,
        otherwise: str = "remove it",
    ) -> None:
        near = known[0] if len(known) == 1 and "." in known[0] else nearest(name, known)
        kind = "TERRADASK_<SECTION>__<KEY>" if name.startswith(PREFIX) else "a setting"
        self.findings.append(
            Finding(
                where=where,
                problem=problem,
                given=given,
                allowed=", ".join(known) if len(known) <= 30 else f"{kind} of docs/settings.md",
                advice=did_you_mean(near, given) if near else otherwise,
            )
        )


def _instead(section: str, key: str) -> str:
    """Return advice on a key that its section doesn't have, nor one like it."""
    if section == "limits" and key in LimitSettings.model_fields:
        return "write it in [limits.workspace], [limits.each_owner] or [limits.each_team]"
    # An offer and a declared cluster have settings of [cluster] without a section.
    if key in _sections() and key != "cluster":
        return f"write [{key}] as a section of its own"
    return "remove it"


def _take_back(
    below: dict[str, Any], above: Mapping[str, Any], excluded_by: Mapping[str, tuple[str, ...]]
) -> None:
    """Remove what a layer excludes and doesn't set itself: a request for cores replaces types that
    were named before.
    """
    for said, value in above.items():
        for excluded in (
            excluded_by.get(said, ()) if value is not None and value is not False else ()
        ):
            if excluded not in above:
                below.pop(excluded, None)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any], *inside: str) -> dict[str, Any]:
    """Lay one table over another, key by key; `inside` is its path of keys in a cluster's table."""
    result = dict(below)
    if not inside:
        _take_back(result, above, _EXCLUDED_BY)
    elif len(inside) == 2 and inside[0] == _GROUPS:
        _take_back(result, above, EXCLUDED_BY_IN_GROUP)
    for key, value in above.items():
        old = result.get(key)
        result[key] = (
            _merged(old, value, *inside, key)
            if isinstance(old, Mapping) and isinstance(value, Mapping)
            else value
        )
    return result


def _sections() -> list[str]:
    """Return the sections that are one table of settings."""
    return [section for section in Settings.model_fields if section not in TABLES]


def _fields_of(section: str) -> dict[str, FieldInfo]:
    kind = section.partition(".")[0]
    if kind == OFFERS:
        own = {key: OfferSettings.model_fields[key] for key in OFFER_KEYS}
        return {**own, **{k: v for k, v in ClusterSettings.model_fields.items() if k != "offer"}}
    if kind in TABLES:
        return TABLES[kind].model_fields
    model: Any = Settings.model_fields[section].annotation
    fields: dict[str, FieldInfo] = model.model_fields
    return fields


def _variables() -> Iterator[str]:
    for section in _sections():
        for key in _fields_of(section):
            yield f"{PREFIX}{section}__{key}".upper()


def _parse(text: str, setting: FieldInfo) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # A zone or a name that looks like a number stays text.
    kinds = _alternatives(setting.annotation)
    is_text = {getattr(kind, "__origin__", kind) for kind in kinds} <= {str, NoneType}
    return text if is_text and value is not None and not isinstance(value, str) else value


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def with_underscores(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return Dask's configuration with ``_`` in the names of settings; its users write ``-`` or
    ``_``.
    """

    def plain(name: Any) -> str:
        return str(name).replace("-", "_")

    def table(content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        written = {plain(key): value for key, value in content.items()}
        groups = written.get(_GROUPS)
        if isinstance(groups, Mapping):
            written[_GROUPS] = {name: table(own) for name, own in groups.items()}
        if isinstance(written.get("choose"), Mapping):
            written["choose"] = table(written["choose"])
        return written

    return {
        # Names of declared clusters and offers may have hyphens, and keep them.
        plain(section): {name: table(own) for name, own in content.items()}
        if plain(section) in (DECLARED, OFFERS) and isinstance(content, Mapping)
        else table(content)
        for section, content in config.items()
    }
