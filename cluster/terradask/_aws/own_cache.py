"""Where answers of an endpoint are kept on disk."""

from __future__ import annotations

import os
from pathlib import Path

from terradask._aws.endpoints import cache_name
from terradask._common.disk_cache import DiskCache


def own_cache(name: str, endpoint: str) -> DiskCache | None:
    """Return the cache of that name; None where nothing is to be kept.

    The embedded AWS brings a folder of its own, which goes when it does.
    """
    # pydantic is slow to import
    from terradask_stacks.loading import STATE_DIR_VARIABLE

    if cache_name(endpoint) is not None:
        return DiskCache(name)
    folder = os.environ.get(STATE_DIR_VARIABLE)
    return DiskCache(name, Path(folder) / name) if folder else None
