"""Select the part of the caller's Dask configuration for hosts, without secrets."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

# Secrets must not be in an object that every host of the workspace can read.
_SECRET = re.compile(
    r"(pass(word|wd)?|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key)", re.I
)

# Keys with files, modules or addresses of the caller's machine, and keys that the host sets itself.
_LOCAL = (
    ("terradask",),
    ("temporary-directory",),
    ("scheduler",),
    ("scheduler-address",),
    ("distributed", "comm", "tls"),
    ("distributed", "comm", "require-encryption"),
    ("distributed", "comm", "default-scheme"),
    ("distributed", "dashboard", "link"),
    # Handlers refer to local files; `_logging_levels` copies the levels.
    ("logging",),
    ("logging-file-config",),
    ("distributed", "logging"),
    ("distributed", "logging-file-config"),
    ("distributed", "scheduler", "contact-address"),
    ("distributed", "scheduler", "dashboard", "tls"),
    ("distributed", "worker", "local-directory"),
    ("distributed", "client", "preload"),
    ("distributed", "client", "preload-argv"),
    ("distributed", "client", "security-loader"),
    ("distributed", "scheduler", "preload"),
    ("distributed", "scheduler", "preload-argv"),
    ("distributed", "worker", "preload"),
    ("distributed", "worker", "preload-argv"),
    ("distributed", "nanny", "preload"),
    ("distributed", "nanny", "preload-argv"),
)


def portable_config(config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a copy of the Dask configuration with the keys for hosts."""
    import dask.config

    source = dask.config.config if config is None else config
    copied: dict[str, Any] = _copy(source, ())
    if levels := _logging_levels(source):
        copied["logging"] = levels
    return copied


def _logging_levels(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return logger -> level from either form of Dask's ``logging``, without handlers: they write
    to files or sockets of this machine.
    """
    distributed = source.get("distributed", {})
    # Dask reads one of the two places.
    place = distributed if {"logging", "logging-file-config"} & distributed.keys() else source
    given = place.get("logging")
    if not isinstance(given, Mapping):
        return {}
    if "version" not in given:
        return {str(name): level for name, level in given.items() if _is_level(level)}
    loggers = {**(given.get("loggers") or {}), "root": given.get("root")}
    levels = {
        str(name): each.get("level") for name, each in loggers.items() if isinstance(each, Mapping)
    }
    return {name: level for name, level in levels.items() if _is_level(level)}


def _is_level(given: Any) -> bool:
    """Return whether Dask accepts a level; it doesn't start with an unknown one."""
    if isinstance(given, str):
        return given.upper() in logging.getLevelNamesMapping()
    return isinstance(given, int) and not isinstance(given, bool)


def _copy(node: Any, path: tuple[str, ...]) -> Any:
    if not isinstance(node, dict):
        return _without_secrets(node)
    copied = {}
    for key, value in node.items():
        here = (*path, str(key).replace("_", "-"))
        if here in _LOCAL or _SECRET.search(str(key)):
            continue
        child = _copy(value, here)
        if isinstance(value, dict):
            if child:
                copied[str(key)] = child
        elif _is_json(child) and not _is_secret(child) and child != _default(here):
            copied[str(key)] = child
    return copied


def _without_secrets(node: Any) -> Any:
    if isinstance(node, list | tuple):
        return [_without_secrets(item) for item in node if not _is_secret(item)]
    if isinstance(node, dict):
        return {
            key: _without_secrets(value)
            for key, value in node.items()
            if not _SECRET.search(str(key)) and not _is_secret(value)
        }
    return node


def _is_secret(value: Any) -> bool:
    from terradask._plans.policy.patterns import secrets_in

    return isinstance(value, str) and bool(secrets_in(value))


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _default(path: tuple[str, ...]) -> Any:
    import dask.config

    found = (dask.config.get(".".join(path), None, config=each) for each in dask.config.defaults)
    return next((value for value in found if value is not None), None)
