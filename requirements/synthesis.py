"""Print the requirements of `stacks/terradask_stacks/synthesis.lock`, one a line, as pyproject.toml
bounds them; with an extra's name those with its framework.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "stacks"))

from terradask_stacks.synthesis_lock import OF_OWN_CODE  # noqa: E402  # of this checkout

#: It has no wheel, and builds Terraform's command lines in the user's process alone.
WITHOUT_WHEEL = "python-terraform"


def requirements(extra: str = "deploy", project: Path = ROOT) -> list[str]:
    """Return what an environment for synthesis has."""
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = [one for one in table["dependencies"] if _name(one) in OF_OWN_CODE]
    framework = table["optional-dependencies"][extra]
    return sorted([*own, *(one for one in framework if _name(one) != WITHOUT_WHEEL)])


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


if __name__ == "__main__":
    print("\n".join(requirements(*sys.argv[1:])))
