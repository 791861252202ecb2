"""Complete names of offers in IPython and Jupyter: ``Cluster(offer="`` and Tab."""

from __future__ import annotations

import re
from typing import Any

from terradask._workspace.offers import offers
from terradask.errors import TerradaskError

#: The beginning of an offer's name, as an argument.
_ARGUMENT = re.compile(r"""\boffer\s*=\s*["']([a-z0-9-]*)$""")


def load_ipython_extension(shell: Any) -> None:
    """Complete names of offers from now on; ``%load_ext terradask`` calls it.

    Parameters
    ----------
    shell
        IPython's shell.
    """
    from IPython.core.completer import SimpleCompletion, SimpleMatcherResult, context_matcher

    def matcher(context: Any) -> Any:
        found = _ARGUMENT.search(context.text_until_cursor)
        if found is None:
            return SimpleMatcherResult(completions=[])
        names = [SimpleCompletion(name) for name in _names() if name.startswith(found[1])]
        return SimpleMatcherResult(
            completions=names, matched_fragment=found[1], suppress=bool(names)
        )

    shell.Completer.custom_matchers.append(context_matcher(identifier="terradask.offers")(matcher))


def _names() -> list[str]:
    try:
        return list(offers())
    except TerradaskError:
        # A call reports what is wrong with the settings.
        return []
