"""Validate the input of Dask and its hosts: numbers of workers, classes and their options,
packages, variables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from terradask_modules.names import CLUSTER_PATTERN
from terradask_stacks.numbers import NWorkers
from terradask_stacks.validators.refusal import matching, refuse

_SOFTWARE_FILES = frozenset({".txt", ".in", ".toml", ".lock", ".yml", ".yaml"})
_ENVIRON_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")

#: Options that hosts set themselves; the host program refuses them too.
SCHEDULER_RESERVED = frozenset(
    {"security", "protocol", "host", "port", "interface", "dashboard_address", "jupyter"}
)
WORKER_RESERVED = frozenset(
    {
        "security",
        "protocol",
        "host",
        "interface",
        "name",
        "dashboard_address",
        "scheduler_ip",
        "scheduler_port",
        "scheduler_file",
    }
)


def check_n_workers(value: Any) -> NWorkers:
    """Return `value` in the settings' form: a number, a list of two, or None.

    Raises `PydanticCustomError` for anything else.
    """
    allowed = "a whole number from 0, or [minimum, maximum], two of them in this order"
    if value is None or _is_count(value):
        return None if value is None else int(value)
    if not isinstance(value, (list, tuple)):
        raise refuse(f"n_workers is {value!r}", allowed=allowed)
    bounds = list(value)
    if len(bounds) != 2 or not all(map(_is_count, bounds)) or bounds[0] > bounds[1]:
        raise refuse(f"n_workers is {bounds!r}", allowed=allowed)
    return bounds


check_dotted = matching(
    re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"),
    "a dotted path",
    "module.Class, such as distributed.Nanny",
)
check_container = matching(
    r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}",
    "a container image",
    "REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:…, such as "
    "ghcr.io/dask/dask:2026.7.1-py3.12",
)
#: https://packaging.python.org/en/latest/specifications/name-normalization/
_check_package_name = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "a package's name", "a name, such as 'pandas'"
)


def is_software_file(text: str) -> bool:
    """Return whether a text names a file: by a folder in it, or by its ending."""
    return "/" in text or "\\" in text or PurePath(text).suffix in _SOFTWARE_FILES


def check_software(value: Sequence[str] | str) -> list[str] | str:
    """Return requirements that PEP 508 accepts, or a file's path."""
    if not isinstance(value, str):
        return check_requirements(value)
    if not is_software_file(value) and not re.fullmatch(CLUSTER_PATTERN, value):
        raise refuse(
            f"software is {value!r}, which names neither a file nor an environment",
            allowed="a list of requirements, such as ['pandas'], a file, such as 'uv.lock', or an "
            "environment of lower-case letters, digits and hyphens",
            advice=f"for a package, write software = [{value!r}]",
        )
    return value


def check_environment_source(value: Sequence[str] | str) -> list[str] | str:
    """Return requirements, or a file's path."""
    if isinstance(value, str) and not is_software_file(value):
        raise refuse(
            f"software is {value!r}, which names no file",
            allowed="a list of requirements, such as ['pandas'], or a file, such as 'uv.lock'",
            advice=f"for a package, write software = [{value!r}]",
        )
    return check_software(value)


def check_requirements(requirements: Sequence[str]) -> list[str]:
    """Return requirements that PEP 508 accepts."""
    for text in requirements:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise refuse(
                f"{text!r} is not a requirement: {str(error).splitlines()[0]}",
                allowed="PEP 508, such as 'pandas==3.0.1' or 's3fs>=2025.9'",
            ) from error
    return list(requirements)


def check_package_names(names: Sequence[str]) -> list[str]:
    """Return names of packages, without versions."""
    return [_check_package_name(name) for name in names]


def check_environ(environ: dict[str, str]) -> dict[str, str]:
    """Return environment variables with valid names, none of them the host program's."""
    for key in environ:
        if not _ENVIRON_KEY.fullmatch(key):
            raise refuse(
                f"{key!r} is not a variable name",
                allowed="letters, digits and _, not beginning with a digit",
            )
        if key.startswith("TERRADASK_"):
            raise refuse(
                f"{key!r} is reserved for terradask",
                allowed="variables that don't begin with TERRADASK_",
            )
    return environ


def check_scheduler_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the scheduler's options if they are JSON and hosts set none of them."""
    return _check_options(options, "scheduler", SCHEDULER_RESERVED)


def check_worker_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the workers' options if they are JSON and hosts set none of them."""
    return _check_options(options, "worker", WORKER_RESERVED)


def _check_options(options: dict[str, Any], role: str, reserved: frozenset[str]) -> dict[str, Any]:
    taken = sorted(reserved & options.keys())
    if taken:
        raise refuse(
            f"{', '.join(taken)}: set by the {role}'s host itself",
            allowed=f"any option of the {role} class but {', '.join(sorted(reserved))}",
            advice="leave it out; ports are settings of the cluster",
        )
    try:
        json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise refuse(
            f"the options can't be sent to the hosts: {error}",
            allowed="text, numbers, booleans, lists and tables of these",
        ) from error
    return options


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
