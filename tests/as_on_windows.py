"""Show this repository's modules a standard library as Windows has it; other packages' modules see
the real one. As a program: ``python -m tests.as_on_windows MODULE ARGUMENT…`` runs a module so.

What Windows itself does otherwise, with files, locks, processes and consoles, isn't imitated.
"""

from __future__ import annotations

import builtins
import importlib
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from .windows_names import missing_modules, missing_names

OWN = frozenset({"terradask", "terradask_host", "terradask_modules", "terradask_stacks"})

#: Modules that only POSIX has; of the last ones, the stubs have names for Windows too.
BLOCKED = missing_modules() | {"_posixsubprocess", "curses", "termios"}

#: Arguments that raise on Windows, and those that do nothing there.
_REFUSED = frozenset({"pass_fds", "preexec_fn"})
_CREATION_FLAGS = {
    "CREATE_NEW_PROCESS_GROUP": 0x200,
    "CREATE_NO_WINDOW": 0x8000000,
    "DETACHED_PROCESS": 0x8,
}


class _View(ModuleType):
    """A module without some of its names, and with others."""

    def __init__(self, real: ModuleType, given: Mapping[str, Any]) -> None:
        super().__init__(real.__name__, real.__doc__)
        hidden = missing_names(real.__name__) - given.keys()
        self.__dict__.update(_real=real, _hidden=hidden, **given)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_hidden"]:
            raise AttributeError(f"module {self.__name__!r} has no {name!r} on Windows")
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_real"], name, value)


class _Popen(subprocess.Popen[Any]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **_allowed(options))

    def send_signal(self, sig: int) -> None:
        if sig not in (signal.SIGTERM, 0, 1):
            raise ValueError(f"Unsupported signal: {sig}")
        super().send_signal(signal.SIGINT if sig in (0, 1) else sig)


def _run(*args: Any, **options: Any) -> Any:
    return subprocess.run(*args, **_allowed(options))  # noqa: PLW1510


def _allowed(options: dict[str, Any]) -> dict[str, Any]:
    if wrong := [name for name in _REFUSED if options.get(name)]:
        raise ValueError(f"{', '.join(wrong)} isn't supported on Windows")
    options.pop("creationflags", None)
    return options


def begin() -> None:
    """Show modules of `OWN` that are imported from now on what Windows has."""
    given: dict[str, Mapping[str, Any]] = {
        "os": {"name": "nt"},
        "platform": {"system": lambda: "Windows", "machine": lambda: "AMD64"},
        "signal": {"SIGBREAK": signal.SIGTTIN, "CTRL_C_EVENT": 0, "CTRL_BREAK_EVENT": 1},
        "subprocess": {"Popen": _Popen, "run": _run, **_CREATION_FLAGS},
        "sys": {"platform": "win32"},
    }
    plain = ("asyncio", "errno", "multiprocessing", "select", "socket", "socketserver", "time")
    views = {
        name: _View(importlib.import_module(name), given.get(name, {})) for name in (*given, *plain)
    }
    real_import = builtins.__import__

    def import_(
        name: str,
        globals_: Mapping[str, Any] | None = None,
        locals_: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        importer = str((globals_ or {}).get("__name__", "")).partition(".")[0]
        if level == 0 and importer in OWN:
            if name.partition(".")[0] in BLOCKED:
                raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
            if name in views:
                return views[name]
        return real_import(name, globals_, locals_, fromlist, level)

    builtins.__import__ = import_
    # Windows' own encodings are another in each country: none may be left to it.
    warnings.filterwarnings("error", category=EncodingWarning, module=r"terradask\w*\b")


if __name__ == "__main__":
    begin()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
