"""What the embedded AWS's check of shapes finds, test by test."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from terradask_simulator.aws.shapes import MODELS_VARIABLE, REPORT_VARIABLE

_REPOSITORY = Path(__file__).parents[1]


def newest_models() -> Path | None:
    """Return the ``data`` folder of botocore's newest release, from ``make setup-tests``."""
    found = _REPOSITORY.glob(".venv-models/lib/python3*/site-packages/botocore/data")
    return next(found, None)


class ShapeReport:
    """The problems that the embedded AWS of this process have found since they were last taken."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="terradask-shapes-")
        self._file = Path(self._folder.name) / "problems.jsonl"
        self._file.touch()
        self._read_bytes = 0
        os.environ[REPORT_VARIABLE] = str(self._file)
        os.environ[MODELS_VARIABLE] = str(newest_models() or "")

    def take(self) -> list[dict[str, Any]]:
        """Return them; each is named once."""
        if self._file.stat().st_size == self._read_bytes:
            return []
        with self._file.open("rb") as file:
            file.seek(self._read_bytes)
            lines = file.read()
        self._read_bytes += len(lines)
        return [json.loads(line) for line in lines.splitlines()]

    def close(self) -> None:
        """Remove the file."""
        for name in (REPORT_VARIABLE, MODELS_VARIABLE):
            os.environ.pop(name, None)
        self._folder.cleanup()
