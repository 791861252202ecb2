"""Settings' files, and what is found wrong in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings


def write(folder: Path, text: str) -> Path:
    path = folder / "terradask.toml"
    path.write_text(text)
    return path


def problems(path: Path | None = None, **sources: Any) -> dict[str, Any]:
    """Load what can't be loaded; return the findings by place."""
    with pytest.raises(SettingsError) as error:
        load_settings(path, environ=sources.pop("environ", {}), **sources)
    return {finding.where: finding for finding in error.value.findings}
