"""Replaces the node that jsii started, in a forked process by an own one, and before any object was
made by one that loads lazily.

jsii ends node at the exit of a process. In a child that would end the parent's node, and wait for a
thread that only the parent has; and a child's requests would use the parent's pipe.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from importlib.resources import as_file, files
from tempfile import TemporaryDirectory
from typing import Any

#: References to the parent's objects: their deletion would end its node.
_OF_PARENT: list[Any] = []


def leave_node_to_parent(starting: Callable[[], AbstractContextManager[None]]) -> None:
    """Forget the parent's node in a child; the next request starts another, within `starting`."""
    references = sys.modules.get("jsii._reference_map")
    if references is None or not references._assembly_to_module:
        # It has not been started.
        return
    kernel: Any = sys.modules["jsii._runtime"].kernel
    own = _provider_class(references._assembly_to_module, starting)
    if not isinstance(kernel.provider, _OwnNode) or kernel.provider.has_node:
        _leave(kernel.provider._process)
    # Node counts objects from the beginning again.
    references._refs._refs.clear()
    kernel.provider = own()


def replace_early_node(starting: Callable[[], AbstractContextManager[None]]) -> None:
    """Replace a node that the framework's own import has started without `starting`, unless it has
    objects already.
    """
    references = sys.modules.get("jsii._reference_map")
    if references is None or not references._assembly_to_module or references._refs._refs:
        return
    kernel: Any = sys.modules["jsii._runtime"].kernel
    if isinstance(kernel.provider, _OwnNode):
        return
    node = kernel.provider._process
    kernel.provider = _provider_class(references._assembly_to_module, starting)()
    atexit.unregister(node.stop)
    node.stop()


def _leave(node: Any) -> None:
    """Prevent this object from ending or awaiting node, and from deleting its files."""
    _OF_PARENT.append(node)
    atexit.unregister(node.stop)
    # It is also called when the object is deleted.
    node.stop = lambda: None
    node._process.returncode = 0
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (node._process.stdin, node._process.stdout, node._process.stderr):
        # Node ends with its parent if that has the only other end.
        os.dup2(null, stream.fileno(), inheritable=False)
    os.close(null)
    for _, callback in node._ctx_stack._exit_callbacks:
        folder = getattr(callback, "__self__", None)
        if isinstance(folder, TemporaryDirectory):
            folder._finalizer.detach()  # type: ignore[attr-defined]


class _OwnNode:
    """Marker class of an own provider, in contrast to jsii's."""

    @property
    def has_node(self) -> bool:
        """Whether it has started node."""
        return "_process" in vars(self)


def _provider_class(
    assemblies: Mapping[str, str], starting: Callable[[], AbstractContextManager[None]]
) -> type[_OwnNode]:
    """Return a provider that starts node on first use, with the assemblies loaded here."""
    providers: Any = sys.modules["jsii._kernel.providers.process"]

    class OwnNode(_OwnNode, providers.ProcessProvider):  # type: ignore[misc]
        @cached_property
        def _process(self) -> Any:
            node = providers._NodeProcess()
            with starting():
                node.start()
            for name, module in dict(assemblies).items():
                known = sys.modules[f"{module}._jsii"].__jsii_assembly__
                with as_file(files(f"{module}._jsii") / known.filename) as path:
                    load = providers.LoadRequest(name, known.version, os.fspath(path))
                    node.send(load, providers.LoadResponse)
            return node

    return OwnNode
