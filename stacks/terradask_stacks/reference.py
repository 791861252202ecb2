"""What users read about settings, made from the models: a starter ``terradask.toml`` and
``docs/settings.md``.

``python -m terradask_stacks.reference > docs/settings.md``
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable
from datetime import date
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from terradask_stacks.layers import TABLES
from terradask_stacks.settings import (
    ClusterSettings,
    EnvironmentSettings,
    IngressRule,
    Settings,
    Waiver,
    WorkerGroupSettings,
)
from terradask_stacks.settings.given import InstanceProfiles, SecurityGroups, ZoneSubnets
from terradask_stacks.settings.state import OUTSIDE_OF_FILE
from terradask_stacks.topics import by_topic

_KEYS = "arn:aws:kms:us-east-1:123456789012:key"
_NETWORK_KEY = f'"{_KEYS}/0123abcd-01ab-23cd-45ef-0123456789ab"'
_STATE_KEY = f'"{_KEYS}/1234abcd-12ab-34cd-56ef-1234567890ab"'

_EXAMPLES: dict[str, str] = {
    "workspace.tags": '{ team = "research" }',
    "network.zones": '["us-east-1a", "us-east-1b"]',
    "network.ingress": (
        '[{ ports = ["8786-8787"], cidr = "203.0.113.7/32", description = "office" }]'
    ),
    "network.container_repositories": '["123456789012.dkr.ecr.us-east-1.amazonaws.com/dask"]',
    "network.data_buckets": '["my-bucket", "other-bucket/results"]',
    "network.architectures": '["x86_64", "arm64"]',
    "network.image": '"ami-0123456789abcdef0"',
    "network.arm64_image": '"ami-0123456789abcdef1"',
    "network.host_packages": '"host-packages"',
    "network.vpc_id": '"vpc-0123456789abcdef0"',
    "network.subnets": (
        '{ "us-east-1a" = { scheduler = "subnet-0123456789abcdef0", worker = '
        '"subnet-0123456789abcdef1" }, "us-east-1b" = { scheduler = "subnet-0123456789abcdef2", '
        'worker = "subnet-0123456789abcdef3" } }'
    ),
    "network.security_groups": (
        '{ scheduler = "sg-0123456789abcdef0", worker = "sg-0123456789abcdef1" }'
    ),
    "network.instance_profiles": '{ scheduler = "dask-scheduler", worker = "dask-worker" }',
    "network.permissions_boundary": '"arn:aws:iam::123456789012:policy/boundary"',
    "network.kms_key_arn": _NETWORK_KEY,
    "network.notify_topic_arn": '"arn:aws:sns:us-east-1:123456789012:dask"',
    "state.bucket": '"my-state-bucket"',
    "state.kms_key_arn": _STATE_KEY,
    "policy.max_hourly_cost_usd": "25",
    "policy.waivers": (
        '[{ check = "P3", address = "aws_launch_template.worker-*", reason = "until '
        'NAT is there", expires = 2027-01-01 }]'
    ),
    "cluster.worker_vm_types": '["m6i.xlarge", "m5.xlarge"]',
    "cluster.worker_cpu": "[4, 8]",
    "cluster.worker_memory": '"32 GiB"',
    "cluster.worker_gpu": "1",
    "cluster.worker_gpu_type": '"A10G"',
    "cluster.worker_disk_size": "200",
    "cluster.worker_disk_throughput": "250",
    "cluster.scheduler_disk_size": "100",
    "cluster.scheduler_vm_types": '["m6i.large"]',
    "cluster.scheduler_cpu": "2",
    "cluster.scheduler_memory": '"8 GiB"',
    "cluster.scheduler_gpu": "0",
    "cluster.arm": "true",
    "cluster.n_workers": "4",
    "cluster.worker_groups": "{ gpu = { gpu = 1, n_workers = 2, resources = { GPU = 1 } } }",
    "cluster.idle_timeout_seconds": "3600",
    "cluster.no_client_timeout_seconds": "300",
    "cluster.zone_name": '"us-east-1a"',
    "cluster.ingress": '[{ ports = ["8786-8787"], cidr = "203.0.113.7/32" }]',
    "cluster.connect": '"ssm"',
    "cluster.use_scheduler_public_ip": "true",
    "cluster.allow_ingress_from": '["203.0.113.7/32"]',
    "cluster.allow_ssh_from": '["203.0.113.7/32"]',
    "cluster.worker_options": "{ nthreads = 4 }",
    "cluster.scheduler_options": "{ idle_timeout = '1 hour' }",
    "cluster.software": '["pandas==3.0.1"]',
    "cluster.software_lock": '"requirements.txt"',
    "cluster.container": '"ghcr.io/dask/dask:2026.7.1-py3.12"',
    "cluster.package_sync": "true",
    "cluster.local_modules": "true",
    "cluster.package_sync_ignore": '["jupyterlab"]',
    "cluster.environ": '{ OMP_NUM_THREADS = "1" }',
    "cluster.secret_principals": '["arn:aws:iam::123456789012:role/on-call"]',
    "cluster.tags": '{ project = "forecast" }',
}

#: Tables inside a section, each described under a heading of its own.
_TABLES: dict[str, type[BaseModel]] = {
    "A rule of `network.ingress` or `cluster.ingress`": IngressRule,
    "A zone of `network.subnets`": ZoneSubnets,
    "`network.security_groups`": SecurityGroups,
    "`network.instance_profiles`": InstanceProfiles,
    "A waiver of `policy.waivers`": Waiver,
    "A group of `cluster.worker_groups`": WorkerGroupSettings,
    "`[environments.NAME]`": EnvironmentSettings,
}

_HEADER = """\
# Settings of terradask. Each is shown with its default, or with an example if the default is empty;
# remove the # in front of a setting to change it. Dask's configuration (terradask:),
# TERRADASK_<SECTION>__<KEY>
# variables and arguments override this file.
"""

_INTRODUCTION = """\
# Settings

<!-- Made by `python -m terradask_stacks.reference > docs/settings.md`; a test compares them. -->

Settings come from these sources; each overrides the one before:

1. the defaults, then `terradask.backend-options` in Dask's configuration
   ([Zones](zones.md#backend-options)),
2. `terradask.toml`, searched from the working directory upwards (`terradask init` writes one),
3. Dask's configuration, under `terradask:` (`~/.config/dask/*.yaml`,
   `DASK_TERRADASK__CLUSTER__N_WORKERS=4`); keys are written with `-` or `_`,
4. `TERRADASK_<SECTION>__<KEY>` variables, such as `TERRADASK_CLUSTER__N_WORKERS=4`; values are JSON
   if they parse as JSON, otherwise text,
5. arguments of the call.

Tables (`tags`, `environ`, the options, `worker_groups`) are merged key by key; everything else is
replaced. Unknown keys are refused. If one source names instance types and a later one requests
cores or memory, only the later one counts; the same holds the other way round. Similarly, a later
`use_best_zone = true` cancels a `zone_name`, and a later `region` cancels zones of another one.
"""

_DECLARED_EXAMPLE = """\
# A declared cluster: a stack beside the network, deployed with `terradask apply NAME` or cdktf.
# Settings that its table leaves out are as in [cluster]:
#
# [clusters.etl]
# max_workers = 50
#
# An environment that clusters share: software = "team", after `terradask env create team`.
#
# [environments.team]
# software = "uv.lock"
"""

_DECLARED = """\
## `[clusters.NAME]`

A declared cluster: a stack beside `network`. `terradask apply NAME`, the `cdktf` command and
`Cluster(name="NAME")` deploy it alike. Its table takes every setting of `[cluster]`; settings that
it leaves out are as there, and tables are merged key by key. Environment variables and Dask's
`terradask.cluster` count as `[cluster]`, so the table overrides them; arguments of `Cluster`
override the table.

```toml
[cluster]
tags = { team = "research" }

[clusters.etl]
max_workers = 50
worker_vm_types = ["m6i.2xlarge", "m5.2xlarge"]

[clusters.reports]
max_workers = 10
```
"""


def starter_toml() -> str:
    """Return a commented ``terradask.toml`` with every setting, its default and what it does."""
    parts = [_HEADER]
    for section, model in _sections():
        parts.append(f"[{section}]")
        for topic, keys in _topics(model).items():
            parts += [f"# ---- {topic} ----\n"] if topic else []
            for key in keys:
                if (section, key) == OUTSIDE_OF_FILE:
                    continue
                field = model.model_fields[key]
                parts += textwrap.wrap(
                    str(field.description), 110, initial_indent="# ", subsequent_indent="# "
                )
                value = _EXAMPLES.get(f"{section}.{key}") or _toml(_default(field))
                parts.append(f"#{key} = {value}\n")
    parts.append(_DECLARED_EXAMPLE)
    return "\n".join(parts)


def settings_markdown() -> str:
    """Return ``docs/settings.md``."""
    parts = [_INTRODUCTION]
    for section, model in _sections():
        parts.append(f"## `[{section}]`\n\n{_summary(model)}\n\n{_tables(model)}")
    parts.append(_DECLARED)
    for title, model in _TABLES.items():
        parts.append(f"## {title}\n\n{_summary(model)}\n\n{_tables(model)}")
    return "\n".join(parts)


def _sections() -> list[tuple[str, type[BaseModel]]]:
    return [
        (name, _as_model(field.annotation))
        for name, field in Settings.model_fields.items()
        if name not in TABLES
    ]


def _topics(model: type[BaseModel]) -> dict[str, list[str]]:
    """Return topic -> settings of a section; one topic without a name for a section without."""
    keys = list(model.model_fields)
    return by_topic(keys) if model is ClusterSettings else {"": keys}


def _as_model(annotation: Any) -> type[BaseModel]:
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise TypeError(f"{annotation!r} is no section")
    return annotation


def _summary(model: type[BaseModel]) -> str:
    paragraph = " ".join(str(model.__doc__).partition("\n\n")[0].split())
    summary = paragraph.split(": ", 1)[-1].replace("``", "`")
    return summary[:1].upper() + summary[1:]


def _tables(model: type[BaseModel]) -> str:
    return "\n".join(
        (f"### {topic}\n\n" if topic else "") + _table(model, keys)
        for topic, keys in _topics(model).items()
    )


def _table(model: type[BaseModel], keys: Iterable[str]) -> str:
    rows = ["| setting | type | default | what it does |", "| --- | --- | --- | --- |"]
    for key in keys:
        field = model.model_fields[key]
        default = "needed" if field.is_required() else f"`{_shown(_default(field))}`"
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


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def _shown(value: Any) -> str:
    return "unset" if value is None else _toml(value)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
            if value
            else "{}"
        )
    return json.dumps(value)


_WORDS: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true/false",
    Any: "anything",
    IngressRule: "rules",
    Waiver: "waivers",
    date: "day",
    SecurityGroups: "table",
    InstanceProfiles: "table",
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


if __name__ == "__main__":
    sys.stdout.write(settings_markdown())
