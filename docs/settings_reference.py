"""The page ``docs/settings.md``, made from the models of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from terradask_stacks.settings import (
    EgressRule,
    EnvironmentSettings,
    IngressRule,
    OfferSettings,
    Waiver,
    WorkerGroupSettings,
)
from terradask_stacks.settings.budgets import BudgetSettings
from terradask_stacks.settings.limits import LimitSettings
from terradask_stacks.settings.mounts import MountSettings
from terradask_stacks.settings.network import InstanceProfiles, SecurityGroups, ZoneSubnets
from terradask_stacks.settings.offers import OFFER_KEYS
from terradask_stacks.settings.task_rights import DataBucketSettings, TaskRightSettings
from terradask_stacks.starter_file import default_of, sections, topics_of
from terradask_stacks.toml_values import toml_text

#: Tables inside a section, each described under a heading of its own.
_TABLES: dict[str, type[BaseModel]] = {
    "A rule of `network.ingress` or `cluster.ingress`": IngressRule,
    "A rule of `network.egress`": EgressRule,
    "A zone of `network.subnets`": ZoneSubnets,
    "`network.security_groups`": SecurityGroups,
    "`network.instance_profiles`": InstanceProfiles,
    "A bucket of `network.data_buckets`": DataBucketSettings,
    "An entry of `network.task_rights`": TaskRightSettings,
    "A mount of `network.mounts`": MountSettings,
    "A budget of `network.budgets`": BudgetSettings,
    "A waiver of `policy.waivers`": Waiver,
    "A table of `limits`": LimitSettings,
    "A group of `cluster.worker_groups`": WorkerGroupSettings,
    "`[environments.NAME]`": EnvironmentSettings,
}

_INTRODUCTION = """\
# Settings

<!-- Made by `make docs`; a test compares them. -->

Everything that `terradask.toml` can contain, with type and default (-: unset). Settings come from
these sources; each overrides the one before:

1. the defaults, then `terradask.backend-options` in Dask's configuration
   ([Zones](zones.md#backend-options)),
2. `terradask.toml`, searched from the working directory upwards (`terradask init` writes one),
3. Dask's configuration, under `terradask:` (`~/.config/dask/*.yaml`,
   `DASK_TERRADASK__CLUSTER__N_WORKERS=4`); keys are written with `-` or `_`,
4. `TERRADASK_<SECTION>__<KEY>` variables, such as `TERRADASK_CLUSTER__N_WORKERS=4`; values are JSON
   if they parse as JSON, otherwise text,
5. arguments of the call.

Tables (`tags`, `environ`, the options, `worker_groups`) are merged key by key; everything else is
replaced. Unknown keys are refused. Of instance types and a request for cores or memory, the later
source counts. A later `use_best_zone = true` cancels a `zone_name`, a later `region` other zones.
"""

_DECLARED = """\
## `[clusters.NAME]`

A declared cluster: a stack beside `network`. `terradask apply NAME`, the `cdktf` command and
`Cluster(name="NAME")` deploy it alike. Its table takes every setting of `[cluster]`; settings that
it leaves out are as there, and tables are merged key by key. Environment variables and Dask's
`terradask.cluster` count as `[cluster]`, so the table overrides them.

```toml
[clusters.etl]
max_workers = 50
worker_vm_types = ["m6i.2xlarge", "m5.2xlarge"]
```
"""


_OFFERS = """\
## `[offers.NAME]`

An offer ([Offers](offers.md)): saved settings of clusters, and what their users may choose. Its
table takes every setting of `[cluster]` but `offer`; settings that it leaves out are as in
`[cluster]` of the same file, except `max_workers`, which is then the most that `n_workers` allows.
Besides, it takes:
"""


def settings_markdown() -> str:
    """Return ``docs/settings.md``."""
    parts = [_INTRODUCTION]
    for section, model in sections():
        parts.append(f"## `[{section}]`\n\n{_summary(model)}\n\n{_tables(model)}")
    parts.append(_DECLARED)
    parts.append(f"{_OFFERS}\n{_table(OfferSettings, OFFER_KEYS)}")
    for title, model in _TABLES.items():
        parts.append(f"## {title}\n\n{_summary(model)}\n\n{_tables(model)}")
    return "\n".join(parts)


def _summary(model: type[BaseModel]) -> str:
    paragraph = " ".join(str(model.__doc__).partition("\n\n")[0].split())
    summary = paragraph.split(": ", 1)[-1].replace("``", "`")
    return summary[:1].upper() + summary[1:]


def _tables(model: type[BaseModel]) -> str:
    return "\n".join(
        (f"### {topic}\n\n" if topic else "") + _table(model, keys)
        for topic, keys in topics_of(model).items()
    )


def _table(model: type[BaseModel], keys: Iterable[str]) -> str:
    rows = ["| setting | type | default | |", "| --- | --- | --- | --- |"]
    for key in keys:
        field = model.model_fields[key]
        default = "needed" if field.is_required() else _shown(default_of(field))
        description = str(field.description).replace("|", "\\|")
        words = _type_words(field.annotation) + _limits(field.metadata)
        rows.append(f"| `{key}` | {words} | {default} | {description} |")
    return "\n".join(rows) + "\n"


def _limits(metadata: Iterable[Any]) -> str:
    """Return the least and greatest value that a type's metadata allow, in words."""
    found = {
        name: getattr(each, name)
        for each in metadata
        for name in ("ge", "gt", "le")
        if getattr(each, name, None) is not None
    }
    if "gt" in found:
        least = f"more than {found['gt']:,}"
    else:
        least = f"{found['ge']:,}" if "ge" in found else ""
    if "le" not in found:
        return f", {least if 'gt' in found else f'at least {least}'}" if least else ""
    return f", {least}{', up to' if 'gt' in found else ' to'} {found['le']:,}"


def _shown(value: Any) -> str:
    return "-" if value is None else f"`{toml_text(value)}`"


_WORDS: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true/false",
    Any: "anything",
    IngressRule: "rules",
    EgressRule: "rules",
    Waiver: "waivers",
    DataBucketSettings: "texts or tables",
    TaskRightSettings: "tables",
    date: "day",
    MountSettings: "tables",
    SecurityGroups: "table",
    InstanceProfiles: "table",
    LimitSettings: "table",
}


def _type_words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        words = _WORDS[annotation]
    elif origin is Literal:
        words = ", ".join(
            f"`{value if isinstance(value, str) else json.dumps(value)}`" for value in arguments
        )
    elif origin is list:
        words = f"list of {_type_words(arguments[0])}"
    elif origin is dict:
        words = "table"
    elif hasattr(annotation, "__metadata__"):
        inner = [
            each
            for one in annotation.__metadata__
            for each in (one.metadata if isinstance(one, FieldInfo) else [one])
        ]
        words = _type_words(annotation.__origin__) + _limits(inner)
    else:
        words = " or ".join(
            dict.fromkeys(_type_words(part) for part in arguments if part is not type(None))
        )
    return words
