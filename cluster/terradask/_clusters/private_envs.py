"""Check private environment variables, and find secrets among public ones."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from terradask.errors import InvalidInput

logger = logging.getLogger("terradask")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Variables that processes read at their start, and those of `send_credentials`.
_RESERVED = re.compile(
    r"(TERRADASK|DASK)_.*|AWS_CONTAINER_(CREDENTIALS|AUTHORIZATION)_.*", re.IGNORECASE
)


def check_private_envs(env: Mapping[str, str]) -> dict[str, str]:
    """Check private variables; errors don't contain values. Raises `InvalidInput`."""
    if not isinstance(env, Mapping):
        raise InvalidInput(
            "Private environment variables must map names to values.",
            given=type(env).__name__,
            allowed='a mapping, such as {"DB_PASSWORD": password}',
            advice="pass a dict",
        )
    for number, (name, value) in enumerate(env.items(), start=1):
        _check_name(name, number)
        _check_value(name, value)
    return dict(env)


def secrets_in_environ(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that seem to hold secrets, by their names or values."""
    from terradask._plans.policy.patterns import is_secret_name, points_to_secret, secrets_in

    return sorted(
        name
        for name, value in environ.items()
        if value
        and not points_to_secret(value)
        and (is_secret_name(name) or secrets_in(value) or secrets_in(f"{name}={value}"))
    )


def warn_of_secrets(cluster: str, environ: Mapping[str, str]) -> None:
    """Warn of variables that seem to hold secrets: environ is stored in the bucket."""
    found = secrets_in_environ(environ)
    if found:
        logger.warning(
            "cluster %s: environ seems to contain secrets (%s) and is stored in the workspace's "
            "bucket, where all hosts can read it; leave them out, and send them to the running "
            "cluster: cluster.send_private_envs({...})",
            cluster,
            ", ".join(found),
        )


def _check_name(name: Any, number: int) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        # The caller may have swapped name and value.
        raise InvalidInput(
            "A private environment variable has an invalid name.",
            given=(
                f"variable {number}, whose name is "
                f"{'text' if isinstance(name, str) else type(name).__name__}"
            ),
            allowed="letters, digits and _, not beginning with a digit",
            advice='pass {"NAME": value}',
        )
    if _RESERVED.fullmatch(name):
        raise InvalidInput(
            "This environment variable can't be private: it is read when a process starts, or "
            "set by send_credentials().",
            given=name,
            allowed=(
                "any but TERRADASK_…, DASK_…, AWS_CONTAINER_CREDENTIALS_… and "
                "AWS_CONTAINER_AUTHORIZATION_…"
            ),
            advice=(
                "set Dask's configuration in this process: hosts get it (send_dask_config); for "
                "credentials, call send_credentials()"
            ),
        )


def _check_value(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InvalidInput(
            "An environment variable's value must be text.",
            given=f"{name}, a {type(value).__name__}",
            advice="pass str(…)",
        )
    if "\0" in value or not _encodes(value):
        raise InvalidInput(
            "An environment variable can't hold this value.",
            given=f"{name}, text with a NUL or a lone surrogate",
            allowed="text that UTF-8 can encode, without NUL",
            advice="encode it first, for example as base64",
        )


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
