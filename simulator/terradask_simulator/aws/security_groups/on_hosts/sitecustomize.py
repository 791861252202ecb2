"""Python imports this module at the start of each process of a host: it has the first folder of the
Python path.
"""

from __future__ import annotations

import os
import sys

if "TERRADASK_SIMULATOR_NETWORK" in os.environ:
    from terradask_security_groups import install  # type: ignore[import-not-found]  # beside this

    install(os.environ)


def _import_the_other() -> None:
    """Import the module of this name that Python would have imported without this one."""
    own = os.path.dirname(__file__)  # noqa: PTH120  (importing pathlib takes milliseconds)
    mine, path = sys.modules.pop(__name__), list(sys.path)
    sys.path[:] = [each for each in path if each != own]
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # there may be none
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = mine
    finally:
        sys.path[:] = path


_import_the_other()
