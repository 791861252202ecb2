"""The app that the ``cdktf`` command runs, as ``cdktf.json`` says: ``python -P -m terradask.app``.

It writes the network's stack and those of the declared clusters, ``[clusters.NAME]``. On an empty
account the network is deployed by a command of its own: the ``cdktf`` command first initialises
every stack that it is to deploy, and the clusters' states lie in the network's bucket.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: Set by the ``cdktf`` command.
OUTPUT_VARIABLE = "CDKTF_OUTDIR"


def main() -> int:
    """Synthesise the stacks of the workspace around the working directory.

    Asks AWS only for answers that ``terradask.lock.json`` doesn't hold yet, and writes them there.
    """
    from terradask._workspace.workspace import Workspace
    from terradask.errors import TerradaskError

    try:
        Workspace.load().synth(out=Path(os.environ.get(OUTPUT_VARIABLE) or "cdktf.out"))
    except TerradaskError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
