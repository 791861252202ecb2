"""The client imports nothing but the dependencies of `pip install terradask`."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

from terradask._software.environment import read_installed
from terradask._software.hosts import host_markers
from terradask._software.scan import dependency_closure

#: Imports modules in a process in which the packages given as its argument are missing; prints
#: those that can't be imported, with the reason.
IMPORT = """
import importlib, importlib.abc, json, pkgutil, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, Missing())
import terradask
names = ["terradask_host.documents", "terradask_stacks.settings", "terradask_stacks.synthesis"]
names += ["terradask_modules.aws"]
names += [each.name for each in pkgutil.walk_packages(terradask.__path__, "terradask.")]
failed = {}
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failed[name] = str(error)
from terradask import Cluster, Workspace, function
from terradask.cli import main
print(json.dumps({"failed": failed, "imported": len(names)}))
"""


def _missing() -> set[str]:
    """Return the installed modules that aren't of the client's dependencies."""
    installed = read_installed(importlib.metadata.distributions(), "x86_64")
    own = dependency_closure(installed, ["terradask"], host_markers("x86_64"))
    of_module = importlib.metadata.packages_distributions()
    return {
        module
        for module, names in of_module.items()
        if own.isdisjoint(name.lower().replace("_", "-") for name in names)
    }


def test_every_module_of_the_client_is_imported_without_the_other_packages(tmp_path: Path) -> None:
    missing = _missing()
    for name in ("cdktf", "constructs", "jsii", "python_terraform", "bokeh", "moto", "uv", "pip"):
        assert name in missing
    assert {"boto3", "distributed", "cryptography", "yaml"}.isdisjoint(missing)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT, json.dumps(sorted(missing))],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["imported"] > 300
    # What makes the constructs alone needs CDKTF.
    assert found["failed"].keys() == {"terradask_modules.aws"}, found["failed"]
