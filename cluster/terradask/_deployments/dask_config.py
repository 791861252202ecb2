"""The part of the caller's Dask configuration that hosts get."""

from __future__ import annotations

import json
import re
from typing import Any

# Secrets must not be in an object that every host of the workspace can read.
_SECRET = re.compile(
    r"(pass(word|wd)?|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key)", re.I
)

# Keys with files or addresses of the caller's machine, and keys that the host sets itself.
_LOCAL = (
    ("terradask",),
    ("temporary-directory",),
    ("scheduler",),
    ("scheduler-address",),
    ("distributed", "comm", "tls"),
    ("distributed", "comm", "require-encryption"),
    ("distributed", "comm", "default-scheme"),
    ("distributed", "dashboard", "link"),
    ("distributed", "scheduler", "preload"),
    ("distributed", "scheduler", "preload-argv"),
    ("distributed", "worker", "preload"),
    ("distributed", "worker", "preload-argv"),
    ("distributed", "nanny", "preload"),
    ("distributed", "nanny", "preload-argv"),
)


def portable_config(config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a copy of the Dask configuration with what is for hosts."""
    import dask.config

    source = dask.config.config if config is None else config
    copied: dict[str, Any] = _copy(source, ())
    return copied


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
    from terradask._policy.patterns import secrets_in

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
