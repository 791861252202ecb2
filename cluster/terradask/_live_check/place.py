"""The throw-away workspace of a check: its settings, its folder, and the record in it by which a
later check finds what a killed one left.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

from terradask._common.clock import utc_text
from terradask._common.processes import process_started
from terradask_stacks.files import write_whole
from terradask_stacks.loading import FILE_NAME, STATE_DIR_VARIABLE

NAME = re.compile(r"smoke-[0-9a-f]{4}")
#: On every resource: when the check is over at the latest, in UTC.
UNTIL_TAG = "terradask-live-check-until"

_RECORD = "record.json"


@dataclass(frozen=True)
class SmokeWorkspace:
    """A throw-away workspace. Its folder has its settings and its record: the other fields."""

    folder: Path
    name: str
    account: str
    region: str
    #: When its check is over at the latest, in UTC.
    until: str
    #: The check's process.
    pid: int
    #: When that process was started, by which another one of its number is told apart.
    process_started: str | None

    @classmethod
    def begin(
        cls,
        base: Path,
        *,
        account: str,
        region: str,
        limit: datetime.timedelta,
        name: str | None = None,
    ) -> SmokeWorkspace:
        """Make a folder with a record, before anything is made in the account."""
        name = name or f"smoke-{secrets.token_hex(2)}"
        until = utc_text(datetime.datetime.now(datetime.UTC) + limit)
        return cls(base / name, name, account, region, until, 0, None).taken_over()

    @classmethod
    def left(cls, base: Path) -> list[SmokeWorkspace]:
        """Return those that a check has begun and not removed, and whose process is gone."""
        found = (cls._read(path) for path in sorted(base.glob(f"*/{_RECORD}")))
        return [one for one in found if one is not None and not one.runs]

    @classmethod
    def _read(cls, path: Path) -> SmokeWorkspace | None:
        try:
            found = cls(folder=path.parent, **json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return found if NAME.fullmatch(found.name) else None

    @property
    def runs(self) -> bool:
        """Whether the check's process is alive, on this machine."""
        return self.process_started is not None and (
            process_started(self.pid) == self.process_started
        )

    def taken_over(self) -> SmokeWorkspace:
        """Make this process the one that removes it, in the record too."""
        pid = os.getpid()
        taken = replace(self, pid=pid, process_started=process_started(pid))
        record = {key: value for key, value in asdict(taken).items() if key != "folder"}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _RECORD, json.dumps(record), sync=True)
        return taken

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write ``terradask.toml``."""
        import tomlkit

        write_whole(self.folder / FILE_NAME, tomlkit.dumps(settings))

    @property
    def has_settings(self) -> bool:
        """Whether anything can have been made."""
        return (self.folder / FILE_NAME).is_file()

    def forget(self) -> None:
        """Remove the folder: nothing is left of the workspace."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have this process use the workspace's own settings alone, inside a block."""
        import dask.config

        others = {name: None for name in os.environ if re.match(r"TERRADASK_\w+__", name)}
        state = {STATE_DIR_VARIABLE: str(self.folder / ".terradask")}
        with environment({**others, **state}), dask.config.set({"terradask": {}}):
            yield


def base_folder() -> Path:
    """Return the folder of the records: the user's, or that of an embedded AWS."""
    given = os.environ.get(STATE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser().absolute() / "live-checks"
    return user_state_path("terradask") / "live-checks"


@contextlib.contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Have this process use other environment variables inside a block; None removes one."""
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
