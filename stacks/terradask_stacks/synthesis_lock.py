"""The packages of an environment that synthesises apart, with their versions."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from terradask_modules.frameworks import CDKTF

#: The packages of an environment for synthesis, with the hashes of their archives.
SYNTHESIS_LOCK = Path(__file__).with_name("synthesis.lock")

#: Packages beside the framework that own code imports there.
OF_OWN_CODE = ("jinja2", "packaging", "pydantic")

_PINNED = re.compile(r"^([a-z0-9-]+)==([^\s;]+)", re.MULTILINE)


@functools.cache
def locked_versions() -> Mapping[str, str]:
    """Return the versions of the framework in ``synthesis.lock``."""
    pins = dict(_PINNED.findall(SYNTHESIS_LOCK.read_text(encoding="utf-8")))
    return {name: pins[name] for name in CDKTF.names}
