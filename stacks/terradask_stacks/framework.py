"""The framework that writes Terraform's JSON: its distributions, and whether this Python has them.

``synthesis.lock`` has the versions and hashes of an environment that synthesises apart.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: The packages of an environment for synthesis, with the hashes of their archives.
SYNTHESIS_LOCK = Path(__file__).with_name("synthesis.lock")

#: The distributions that decide the JSON's bytes: only these versions are used.
EXACT = ("cdktf", "cdktf-cdktf-provider-aws")
#: The framework.
CORE = (*EXACT, "constructs", "jsii")
#: Further packages that own code imports there.
OF_OWN_CODE = ("jinja2", "packaging", "platformdirs", "pydantic")

_PINNED = re.compile(r"^([a-z0-9-]+)==([^\s;]+)", re.MULTILINE)


@functools.cache
def locked_versions() -> Mapping[str, str]:
    """Return the versions in ``synthesis.lock``, by the distributions' names."""
    return dict(_PINNED.findall(SYNTHESIS_LOCK.read_text(encoding="utf-8")))


def versions_here() -> dict[str, str]:
    """Return the versions of the framework in this Python; missing distributions are left out."""
    return {name: found for name in CORE if (found := _installed(name)) is not None}


def is_here() -> bool:
    """Return whether this Python has the framework, in the right versions."""
    found = versions_here()
    return found.keys() == set(CORE) and all(
        found[name] == locked_versions()[name] for name in EXACT
    )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
