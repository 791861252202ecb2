"""The report of an account check: what may be sent to others. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask._live_check.steps import StepResult, first_failed

FORMAT = 1

#: A number of an AWS account, also in the middle of an ARN or a bucket's name.
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
#: The name of a user or of a session, after the kind of principal.
_PRINCIPAL = re.compile(r"(:(?:user|assumed-role|federated-user)/)[^\s\"']+")
#: A person's folder on this machine.
_HOME = re.compile(r"(/(?:home|Users)/)[^/\s\"']+")
_ADDRESS = re.compile(r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}/32")


@dataclass(frozen=True)
class LiveReport:
    """How a check went."""

    started_at: str
    workspace: str
    region: str
    #: Versions of terradask, Python, Terraform and the provider.
    versions: Mapping[str, str]
    results: Sequence[StepResult]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, without account, names of callers and their addresses."""
        failed = first_failed(self.results)
        whole = {
            "format": FORMAT,
            "started_at": self.started_at,
            "workspace": self.workspace,
            "region": self.region,
            "versions": dict(self.versions),
            "passed": failed is None,
            "failed_step": None if failed is None else failed.name,
            "seconds": round(sum(result.seconds for result in self.results), 1),
            "steps": [result.as_dict() for result in self.results],
        }
        found: dict[str, Any] = json.loads(without_identity(json.dumps(whole, default=str)))
        return found

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"terradask-live-{re.sub('[^0-9TZ]', '', self.started_at)}.json"


def without_identity(text: str) -> str:
    """Return a text without numbers of accounts, names of callers and their addresses."""
    text = _HOME.sub(r"\1<name>", _PRINCIPAL.sub(r"\1<name>", text))
    return _ADDRESS.sub("<address>/32", _ACCOUNT.sub("<account>", text))
