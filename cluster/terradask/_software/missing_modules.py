"""Explain Dask's errors about modules that this process has and hosts lack."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from terradask_modules.short_errors import shown_shortly
from terradask_modules.tracebacks import all_in, entries, root_of

#: Errors of hosts: of an import, and of a name that an older version of a module lacks. Dask's
#: `Client.run` has them as text.
_NO_MODULE = re.compile(r"No module named \\?'(?P<module>[\w.]+)\\?'")
_NO_NAME = re.compile(r"Can't get attribute '(?P<name>\w+)' on <module '(?P<module>[\w.]+)'")
#: A task that has failed is one of the client's until that is closed.
_REPEAT = "repeat the call, client.submit and client.map with pure=False, as Dask keeps what failed"


def explain_missing_module(error: BaseException) -> None:
    """Add to an error of Dask which module hosts lack, and how to send it, and a short form."""
    shown = list(all_in(error))
    from_hosts = any(
        root_of(entry.tb_frame) == "distributed"
        for each in shown
        for entry in entries(each.__traceback__)
    )
    if not from_hosts:
        return
    for each in shown:
        if (text := str(each)) and (note := _note(text)):
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
                shown_shortly(error)
            return


def _note(text: str) -> str | None:
    """Return what is missing by an error's text, and how to send it."""
    if found := _NO_NAME.search(text):
        module = found["module"]
        if not hasattr(sys.modules.get(module), found["name"]):
            return None
        problem = f"hosts have the module {module} as it was before {found['name']} came into it"
    elif found := _NO_MODULE.search(text):
        module = found["module"]
        problem = f"hosts don't have the module {module}, which this machine has"
    else:
        return None
    if (advice := _advice(module)) is None:
        return None
    return f"{problem}\n  to do: {advice}\n  then: {_REPEAT}"


def _advice(module: str) -> str | None:
    """Return how to send a module that this process can import; None for all others."""
    from importlib.metadata import packages_distributions

    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or (file := _file(module, top)) is None:
        return None
    packages = sorted(set(packages_distributions().get(top, ())))
    if packages and "site-packages" in file.parts:
        return (
            f"client.register_plugin(distributed.PipInstall({packages})), from an index; or start "
            "the cluster again, which brings your packages"
        )
    folder = "with Cluster(local_modules=True), cluster.sync_software()"
    if top != module or file.name == "__init__.py":
        return f"{folder}; without, make the cluster again with it, in the folder of {top}"
    return f"client.upload_file({_shown(file)!r}); {folder}"


def _file(module: str, top: str) -> Path | None:
    """Return the file of a module of this process, or of one that it could import."""
    if module not in sys.modules and module != top:
        return None
    found = getattr(sys.modules.get(module), "__file__", None)
    if found is None:
        spec = importlib.util.find_spec(top)
        found = None if spec is None or not spec.has_location else spec.origin
    return None if found is None else Path(found)


def _shown(file: Path) -> str:
    """Return a path as it is short to type."""
    here = Path.cwd() / file
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)
