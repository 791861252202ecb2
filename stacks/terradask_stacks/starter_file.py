"""A starter ``terradask.toml``, made from the models of the settings."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from terradask_stacks.layers import TABLES
from terradask_stacks.settings import (
    OUTSIDE_OF_FILE,
    ClusterSettings,
    Settings,
)
from terradask_stacks.toml_values import toml_text
from terradask_stacks.topics import by_topic

_HEADER = """\
# Settings of terradask. Each is shown with its default, or with an example if the default is empty;
# remove the # in front of a setting to change it. Dask's configuration (terradask:),
# TERRADASK_<SECTION>__<KEY>
# variables and arguments override this file.
"""

_DECLARED_EXAMPLE = """\
# A declared cluster: a stack beside the network, deployed with `terradask apply NAME` or cdktf.
# Settings that its table leaves out are as in [cluster]:
#
# [clusters.etl]
# max_workers = 50
#
# An offer: saved settings, and what users may choose; Cluster(offer="small", n_workers=8).
#
# [offers.small]
# worker_cpu = 4
# n_workers = 2
#
# [offers.small.choose]
# n_workers = { min = 1, max = 8 }
#
# An environment that clusters share: software = "team", after `terradask env create team`.
#
# [environments.team]
# software = "uv.lock"
"""


#: A block of addresses as a rule of ``network.ingress``.
_RULE = '{{ ports = ["8786-8787"], cidr = "{}", description = "clients of Dask" }}'

_SHORT = """\
# Settings of terradask. `terradask init --all --out FOLDER` writes all of them, with comments.
[workspace]
name = {name}  # part of every resource's name
region = {region}
"""
_NO_CLIENTS = """
# No address is let in yet: an [[network.ingress]] opens schedulers to one, such as
# ports = ["8786-8787"], cidr = "203.0.113.7/32"; or let clients connect by Session Manager.
"""
_CLIENTS = """
[[network.ingress]]  # who may reach schedulers
ports = ["8786-8787"]
cidr = {}
"""
_SESSIONS = """
[network]
session_manager = true  # clients connect by AWS's Session Manager, without an inbound rule

[cluster]
connect = "ssm"
"""
_STATE = """
[state]  # of the network
bucket = {}
"""


@dataclass(frozen=True)
class Answers:
    """The first settings of a workspace; None for the default."""

    #: `name`, `region`: Of the workspace.
    name: str | None = None
    region: str | None = None
    #: A block of addresses that may reach schedulers, or ``ssm``; None lets no address in.
    clients: str | None = None
    #: The bucket of the network's state.
    state_bucket: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Return the answers for ``--json`` output."""
        return {**vars(self), "name": self.name or Settings().workspace.name}

    @property
    def values(self) -> dict[str, str]:
        """Setting -> value in TOML."""
        is_block = self.clients not in (None, "ssm")
        found = {
            "workspace.name": self.name and toml_text(self.name),
            "workspace.region": self.region and toml_text(self.region),
            "network.ingress": f"[{_RULE.format(self.clients)}]" if is_block else None,
            "network.session_manager": "true" if self.clients == "ssm" else None,
            "cluster.connect": '"ssm"' if self.clients == "ssm" else None,
            "state.bucket": self.state_bucket and toml_text(self.state_bucket),
        }
        return {setting: value for setting, value in found.items() if value}


def short_toml(answers: Answers) -> str:
    """Return a ``terradask.toml`` of some lines."""
    defaults = Settings().workspace
    parts = [
        _SHORT.format(
            name=toml_text(answers.name or defaults.name),
            region=toml_text(answers.region or defaults.region),
        )
    ]
    if answers.clients is None:
        parts.append(_NO_CLIENTS)
    else:
        is_session = answers.clients == "ssm"
        parts.append(_SESSIONS if is_session else _CLIENTS.format(toml_text(answers.clients)))
    if answers.state_bucket is not None:
        parts.append(_STATE.format(toml_text(answers.state_bucket)))
    return "".join(parts)


def starter_toml(answers: Answers = Answers()) -> str:
    """Return a commented ``terradask.toml`` with every setting, its default and what it does; the
    answers' settings aren't comments.
    """
    parts, given = [_HEADER], answers.values
    for section, model in sections():
        parts.append(f"[{section}]")
        for topic, keys in topics_of(model).items():
            parts += [f"# ---- {topic} ----\n"] if topic else []
            for key in keys:
                if (section, key) in OUTSIDE_OF_FILE:
                    continue
                field = model.model_fields[key]
                parts += textwrap.wrap(
                    str(field.description), 110, initial_indent="# ", subsequent_indent="# "
                )
                setting = f"{section}.{key}"
                value = toml_text(field.examples[0] if field.examples else default_of(field))
                is_given = setting in given
                parts.append(f"{key} = {given[setting]}\n" if is_given else f"#{key} = {value}\n")
    parts.append(_DECLARED_EXAMPLE)
    return "\n".join(parts)


def sections() -> list[tuple[str, type[BaseModel]]]:
    """Return the sections of ``terradask.toml``, with their models."""
    return [
        (name, _as_model(field.annotation))
        for name, field in Settings.model_fields.items()
        if name not in TABLES
    ]


def topics_of(model: type[BaseModel]) -> dict[str, list[str]]:
    """Return topic -> settings of a section; one topic without a name for a section without."""
    keys = list(model.model_fields)
    return by_topic(keys) if model is ClusterSettings else {"": keys}


def _as_model(annotation: Any) -> type[BaseModel]:
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        raise TypeError(f"{annotation!r} is no section")
    return annotation


def default_of(field: FieldInfo) -> Any:
    """Return a setting's default; None if it must be given."""
    return None if field.is_required() else field.get_default(call_default_factory=True)
