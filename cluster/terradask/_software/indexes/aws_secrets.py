"""Environment variables with AWS credentials, which are kept from package tools: a packages file
from a stranger's repository can send variables to an index that it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from terradask._software.refused import file_refused

_NAMES = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        # With it a GitHub job gets the token that AWS accepts for a role.
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    }
)
_NAMED = re.compile(rf"\$\{{?({'|'.join(sorted(_NAMES))})\b")


def without_aws_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without AWS credentials."""
    return {name: value for name, value in environ.items() if name not in _NAMES}


def refuse_aws_secrets(path: Path, text: str) -> None:
    """Refuse a file's text that names such a variable. Raises `SoftwareUnusable`."""
    if named := _NAMED.search(text):
        raise file_refused(
            path,
            f"it names the variable {named[1]}, which would send your AWS credentials to the index",
            advice="find out who wrote the file; keep an index's credentials in a variable of "
            "their own, such as one with a CodeArtifact token",
        )
