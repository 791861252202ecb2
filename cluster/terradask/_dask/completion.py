"""Complete names and values in IPython and Jupyter, where its own completer can't know them."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from terradask._dask.arguments import ClusterArguments
from terradask._dask.functions.hardware import ARGUMENTS
from terradask._workspace.context import SettingsSource
from terradask._workspace.offers import offers
from terradask.errors import SetupError, TerradaskError

#: The beginning of a text as an argument: its name, or the call whose first argument it is.
_TEXT = re.compile(
    r"""(?:\b(\w+)\s*=|\b(Cluster|from_name|deployment|destroy_cluster)\()\s*["']([\w-]*)$"""
)
#: The beginning of the name of an argument of `terradask.function`.
_NAME = re.compile(r"\bfunction\((?:[^()]*,)?\s*(\w+)$")


def load_ipython_extension(shell: Any) -> None:
    """Complete names of offers and declared clusters, and values of arguments, from now on.

    ``%load_ext terradask`` calls it.

    Parameters
    ----------
    shell
        IPython's shell.

    Raises
    ------
    SetupError
        IPython is older than 8.6.
    """
    try:
        from IPython.core.completer import SimpleCompletion, SimpleMatcherResult, context_matcher
    except ImportError as error:
        raise SetupError(
            "this IPython can't complete terradask's names",
            given=f"IPython {importlib.metadata.version('ipython')}",
            allowed="8.6 or newer",
            advice=f"{sys.executable} -m pip install --upgrade ipython",
        ) from error

    def matcher(context: Any) -> Any:
        fragment, names = _completed(context.text_until_cursor)
        found = [SimpleCompletion(name) for name in names if name.startswith(fragment)]
        if not found:
            return SimpleMatcherResult(completions=[])
        return SimpleMatcherResult(completions=found, matched_fragment=fragment, suppress=True)

    shell.Completer.custom_matchers.append(context_matcher(identifier="terradask.names")(matcher))


def _completed(line: str) -> tuple[str, Iterable[str]]:
    """Return the last word of a line, and what it may be the beginning of."""
    if (name := _NAME.search(line)) is not None:
        return name[1], (f"{each}=" for each in ARGUMENTS)
    if (text := _TEXT.search(line)) is None:
        return "", ()
    argument = text[1] or "name"
    find = {"offer": offers, "name": _clusters}.get(argument)
    return text[3], _values().get(argument, ()) if find is None else _from_settings(find)


@cache
def _values() -> dict[str, list[str]]:
    """Return argument -> the texts that it can be, where there are few."""
    found = {}
    for name, kind in get_type_hints(ClusterArguments).items():
        literals = (each for each in (kind, *get_args(kind)) if get_origin(each) is Literal)
        texts = [one for each in literals for one in get_args(each) if isinstance(one, str)]
        if texts:
            found[name] = texts
    return found


def _clusters() -> Iterable[str]:
    return SettingsSource(None, {}).load().settings.clusters


def _from_settings(find: Callable[[], Iterable[str]]) -> list[str]:
    try:
        return list(find())
    except TerradaskError:
        # A call reports what is wrong with the settings.
        return []
