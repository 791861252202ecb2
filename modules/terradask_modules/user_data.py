"""User data of a workspace's instances: a small ``#cloud-config`` document without secrets."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from terradask_modules.errors import InvalidInput
from terradask_modules.mounts import Mount
from terradask_modules.names import HOST_SCRIPTS

#: AWS (documented, ec2-user-data): EC2 takes 16 KB of user data, before base64.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html
USER_DATA_LIMIT_BYTES = 16_384

#: The version of ``host.json``.
HOST_FORMAT = 1


def render_user_data(
    *,
    workspace: str,
    region: str,
    bucket: str,
    log_group: str,
    wheel_key: str,
    wheel_sha256: str,
    notify_topic_arn: str | None = None,
    scripts: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    mounts: Sequence[Mount] = (),
) -> str:
    """Return the user data of every instance of a workspace, as plain text.

    It is the same for all clusters and both roles: an instance reads its role from its tags.
    Callers who may describe instances or launch templates can read it, and plans print it, so it
    has only names and one checksum.

    The instance refuses any other wheel of the host program than that of the SHA-256. `scripts` are
    the network's own, by their names in `HOST_SCRIPTS`: the ``sha256`` of each, which is its key in
    the bucket too, and its ``timeout_seconds``. An ``aws_launch_template`` needs the
    ``#cloud-config`` document in base64.

    Raises `InvalidInput` for an empty value or a line break, an invalid checksum, or a document
    above EC2's limit of 16,384 bytes.
    """
    names = {"workspace": workspace, "region": region, "bucket": bucket, "log_group": log_group}
    notice = {} if notify_topic_arn is None else {"notify_topic_arn": notify_topic_arn}
    for name, value in {**names, "wheel_key": wheel_key, **notice}.items():
        if not value or not value.isprintable():
            raise InvalidInput(f"User data needs {name} as one line of text.", given=value)
    for name, sha256 in (
        ("wheel_sha256", wheel_sha256),
        *((script, str(scripts[script].get("sha256"))) for script in scripts),
    ):
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise InvalidInput(
                f"{name} is not a SHA-256.", given=sha256, allowed="64 hexadecimal digits"
            )
    host_json = {
        "format": HOST_FORMAT,
        **names,
        "wheel": {"key": wheel_key, "sha256": wheel_sha256},
        **notice,
        **{name: _script(scripts[name]) for name in HOST_SCRIPTS if name in scripts},
        **({"mounts": [mount.to_document() for mount in mounts]} if mounts else {}),
    }
    text = (
        _environment().get_template("cloud-config.yaml.j2").render(host_json=json.dumps(host_json))
    )
    size = len(text.encode())
    if size > USER_DATA_LIMIT_BYTES:
        raise InvalidInput(
            "The user data is too large.",
            given=f"{size} bytes",
            allowed=f"{USER_DATA_LIMIT_BYTES} bytes",
        )
    return text


def _script(script: Mapping[str, Any]) -> dict[str, Any]:
    return {"sha256": script["sha256"], "timeout_seconds": int(script["timeout_seconds"])}


@functools.cache
def _environment() -> Environment:
    # YAML and shell, not HTML: no escaping is needed.
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=()),
        keep_trailing_newline=True,
    )
    made.filters["without_comments"] = _without_comments
    return made


def _without_comments(script: str) -> str:
    """Return a shell script with empty lines for comments, so that its lines keep their numbers."""
    first, rest = script.split("\n", 1)
    return f"{first}\n{re.sub('^ *#.*$', '', rest, flags=re.MULTILINE)}"
