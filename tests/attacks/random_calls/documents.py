"""What an attacker writes under a key: the genuine document with parts exchanged, another one, or
nothing that can be read.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from typing import Any

#: Names of things that are another's.
FOREIGN = (
    "prod-web",
    "prod/db-password",
    "prod-data",
    "terradask-default-two-etl-workers",
    "terradask/default-two/etl",
    "terradask-default-ml-workers",
    "terradask/default/ml",
    "terradask/default/vault",
    "ml",
    "default-two",
)
_ODD: tuple[Any, ...] = (None, True, -1, 10**12, 0.5, "", [], {}, ["x"], {"x": 1}, "../..")
_ESCAPES = "\x1b]0;planted\x07\x1b[2J[/x]<b>"
_RENAMED = (("etl", "ml"), ("etl", "vault"), ("etl", "mine"), ("default", "default-two"))
_AT = "2026-11-20T05:15:00Z"

#: What there is of documents that a cluster has only now and then.
TEMPLATES: dict[str, Any] = {
    "closing.json": {"format": 1, "at": _AT},
    "scheduler.json": {
        "format": 1,
        "run_id": "20261120T051500Z-1f3a9c",
        "instance_id": "i-0123456789abcdef0",
        "boot": 1,
        "started_at": _AT,
        "private_address": "tls://203.0.113.9:8786",
        "public_address": "tls://203.0.113.9:8786",
        "dashboard_port": 8787,
        "packages": {},
        "python": "3.11",
        "ended": {"at": _AT, "reason": _ESCAPES},
    },
    "run.json": {"format": 1, "run_id": "20261120T051500Z-1f3a9c", "started_at": _AT, "owner": "x"},
    "hosts": {
        "format": 1,
        "run_id": "20261120T051500Z-1f3a9c",
        "instance_id": "i-0123456789abcdef0",
        "role": "worker",
        "group": "workers",
        "state": "failed",
        "reason": _ESCAPES,
        "at": _AT,
        "history": [["failed", _AT]],
        "reasons": [_ESCAPES],
        "notes": [],
        "private_address": "203.0.113.9",
        "log_tail": [_ESCAPES],
    },
    "events": {"format": 1, "run_id": "x", "events": [{"at": _AT, "subject": _ESCAPES}]},
    "terraform.tfstate.tflock": {
        "ID": "0b1c7f1e-0000-0000-0000-000000000000",
        "Operation": "OperationTypeApply",
        "Who": f"{_ESCAPES}@elsewhere",
        "Version": "1.15.0",
        "Created": _AT,
        "Path": "x",
    },
    "applied": {"format": 1, "serial": 10**6, "lineage": "mine"},
}


class Forger:
    """Makes documents, from genuine ones by the last part of their keys."""

    def __init__(self, draws: random.Random, genuine: Mapping[str, bytes]) -> None:
        self._draws, self._genuine = draws, genuine

    def document(self, key: str) -> bytes:
        """Return what to write under a key."""
        draws = self._draws
        if draws.random() < 0.15:
            return draws.choice((b"", b"{", b"not JSON", b"[]", b"null", b"\xff\xfe", b"[" * 5000))
        if draws.random() < 0.03:
            return json.dumps({"log_tail": ["x" * 1024] * 2048}).encode()
        document = copy.deepcopy(self._original(key))
        if isinstance(document, bytes):
            return draws.choice(
                (document, b"planted==6.6\n", b"dask @ https://203.0.113.9/x.whl\n")
            )
        if "resources" in document and draws.random() < 0.6:
            self._extend(document)
        for _ in range(draws.randint(0, 3)):
            self._exchange(document)
        text = json.dumps(document)
        if draws.random() < 0.3:
            text = text.replace(*draws.choice(_RENAMED))
        return text.encode()

    def _original(self, key: str) -> Any:
        name = key.rpartition("/")[2]
        if self._draws.random() < 0.1:
            name = self._draws.choice(sorted(self._genuine) or sorted(TEMPLATES))
        if name in self._genuine:
            try:
                return json.loads(self._genuine[name])
            except ValueError:
                return self._genuine[name]
        above = key.split("/")[-2:][0] if "/" in key else ""
        above = "applied" if key.startswith("applied/") else above
        return TEMPLATES.get(name) or TEMPLATES.get(above) or {"planted": key}

    def _exchange(self, document: Any) -> None:
        """Put something strange, or foreign, in place of one part of a document."""
        parts = [
            (node, key)
            for node in _nodes(document)
            for key in (node if isinstance(node, dict) else range(len(node)))
        ]
        if parts:
            node, key = self._draws.choice(parts)
            node[key] = self._draws.choice((*FOREIGN, *FOREIGN, *_ODD, _ESCAPES))

    def _extend(self, state: dict[str, Any]) -> None:
        """Add a foreign resource to a state, or put it in place of an own one."""
        draws, resources = self._draws, state["resources"]
        if not resources:
            return
        entry = copy.deepcopy(draws.choice(resources))
        foreign = draws.choice(FOREIGN)
        for instance in entry.get("instances", ()):
            own = instance.setdefault("attributes", {})
            own.update(dict.fromkeys({"id", "name", "arn"} & set(own), foreign))
        if draws.random() < 0.5:
            entry["name"] = "planted"
        else:
            resources[:] = [each for each in resources if each.get("name") != entry["name"]]
        if draws.random() < 0.2:
            entry["provider"] = 'provider["registry.example.com/hashicorp/aws"]'
        resources.append(entry)
        state["serial"] = state.get("serial", 0) + 1


def _nodes(document: Any) -> list[Any]:
    if isinstance(document, dict):
        inner = list(document.values())
    elif isinstance(document, list):
        inner = document
    else:
        return []
    return [document, *(found for one in inner for found in _nodes(one))]
