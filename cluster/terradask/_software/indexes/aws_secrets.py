"""Variables that open an AWS account. A file of packages may be of a stranger's repository, and
names an index that gets the values of variables.
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
        # With it a job of GitHub's gets what AWS takes for a role.
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    }
)
_NAMED = re.compile(rf"\$\{{?({'|'.join(sorted(_NAMES))})\b")


def without_aws_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that open an AWS account."""
    return {name: value for name, value in environ.items() if name not in _NAMES}


def refuse_aws_secrets(path: Path, text: str) -> None:
    """Refuse a text, of a file, that names such a variable. Raises `SoftwareUnusable`."""
    if named := _NAMED.search(text):
        raise file_refused(
            path,
            f"it names the variable {named[1]}, whose value opens your AWS account: the index "
            "would get it",
            advice="find out whose file that is; credentials of an index belong into a variable "
            "of their own, such as one with a token of CodeArtifact",
        )
