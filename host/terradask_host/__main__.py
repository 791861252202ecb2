"""``python -m terradask_host``: the start command of the instance's systemd unit."""

from __future__ import annotations

import sys

from terradask_host.agent.agent import main

if __name__ == "__main__":
    sys.exit(main())
