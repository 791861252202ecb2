"""A plan that was made and may be applied: its file, what it was made from, and what it says."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from terradask._plan import PlanSummary, summarise
from terradask._terraform import CONFIGURATION, LOCK_FILE, PlanFile, sha256_of
from terradask.errors import InvalidInput, PlanChanged

SIDECAR_FORMAT = 1


@dataclass(frozen=True)
class _Sidecar:
    """What lies beside a plan's file, so that another process can check it."""

    stack: str
    sha256: str
    configuration_sha256: str
    destroy: bool
    created_at: str
    add: int
    change: int
    remove: int


class Plan:
    """A saved plan of one stack.

    Look at `summary`, then hand it to `Workspace.apply`, which applies exactly this file or refuses.

    Parameters
    ----------
    stack
        ``network``, or the cluster's name.
    folder
        Where Terraform runs.
    plan_file
        The file and its checksum.
    configuration_sha256
        Checksum of the configuration that it was made from.
    destroy
        Whether it destroys the stack.
    show
        Returns the plan's JSON; called when the summary is asked for.
    """

    def __init__(
        self,
        *,
        stack: str,
        folder: Path,
        plan_file: PlanFile,
        configuration_sha256: str,
        destroy: bool,
        show: Callable[[PlanFile], Mapping[str, Any]],
    ) -> None:
        self.stack = stack
        self.folder = folder
        self.destroy = destroy
        self.configuration_sha256 = configuration_sha256
        self.plan_file = plan_file
        self._show = show
        self._summary: PlanSummary | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        counts = f"+{self.plan_file.add} ~{self.plan_file.change} -{self.plan_file.remove}"
        return f"Plan({self.stack!r}, {counts}, sha256={self.hash[:12]!r})"

    @property
    def file(self) -> Path:
        """The plan's file. It holds the state and secrets in plain text; `summary` doesn't."""
        return self.plan_file.path

    @property
    def hash(self) -> str:
        """SHA-256 of the file."""
        return self.plan_file.sha256

    @property
    def changed(self) -> bool:
        """Whether applying the plan would change a resource."""
        return self.plan_file.changed

    @property
    def summary(self) -> PlanSummary:
        """What the plan would do, as typed data without secrets.

        Terraform is asked when this is read first, which takes about a second; who applies without looking doesn't wait for it.
        """
        with self._lock:
            if self._summary is None:
                document = self._show(self.plan_file)
                self._summary = summarise(document, stack=self.stack, plan_hash=self.hash)
            return self._summary

    def check(self) -> None:
        """Refuse when the file or the folder's configuration isn't what was planned.

        Raises
        ------
        PlanChanged
            Naming which.
        """
        if not self.file.is_file():
            raise PlanChanged(
                "the plan's file is gone: it was applied, or removed", what="file", given=str(self.file)
            )
        found = sha256_of(self.file)
        if found != self.hash:
            raise PlanChanged(
                "the plan's file has changed since it was made", what="file", given=f"{self.file} has sha256 {found}, not {self.hash}"
            )
        if configuration_sha256(self.folder) != self.configuration_sha256:
            raise PlanChanged(
                "the configuration has changed since the plan was made", what="configuration", given=str(self.folder)
            )

    def save(self) -> Path:
        """Write down, beside the file, what another process needs to apply it."""
        entry = _Sidecar(
            stack=self.stack,
            sha256=self.hash,
            configuration_sha256=self.configuration_sha256,
            destroy=self.destroy,
            created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            add=self.plan_file.add,
            change=self.plan_file.change,
            remove=self.plan_file.remove,
        )
        path = _sidecar_path(self.file)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"format": SIDECAR_FORMAT, **asdict(entry)}, stream, indent=1)
        Path(temporary).replace(path)
        return path

    def remove(self) -> None:
        """Remove the file and what lies beside it: it holds secrets, and can't be applied twice."""
        self.file.unlink(missing_ok=True)
        _sidecar_path(self.file).unlink(missing_ok=True)


def open_plan(
    path: Path, *, folder_of: Callable[[str], Path], show_in: Callable[[Path, PlanFile], Mapping[str, Any]]
) -> Plan:
    """Open a plan that `Plan.save` described.

    Parameters
    ----------
    path
        The plan's file.
    folder_of
        Returns the folder of a stack.
    show_in
        Returns a plan's JSON, given the folder of its stack.

    Raises
    ------
    InvalidInput
        If the file isn't there, or isn't a plan of terradask's.
    """
    path = path.absolute()
    if not path.is_file():
        raise InvalidInput(
            "there is no such plan", given=str(path), allowed="a file that `terradask plan` wrote", advice="plan again"
        )
    try:
        document = json.loads(_sidecar_path(path).read_text(encoding="utf-8"))
        if document.pop("format") != SIDECAR_FORMAT:
            raise ValueError("another format")
        entry = _Sidecar(**document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            "this is no plan that terradask wrote",
            given=f"{path}: {error}",
            allowed=f"a plan with {_sidecar_path(path).name} beside it",
            advice="plan again, and keep both files together",
        ) from error
    folder = folder_of(entry.stack)
    return Plan(
        stack=entry.stack,
        folder=folder,
        plan_file=PlanFile(path, entry.sha256, (), entry.add, entry.change, entry.remove),
        configuration_sha256=entry.configuration_sha256,
        destroy=entry.destroy,
        show=lambda plan_file: show_in(folder, plan_file),
    )


def configuration_sha256(folder: Path) -> str:
    """Return a checksum of a stack's configuration and its provider's lock; empty where there is none."""
    try:
        return "-".join(sha256_of(folder / name)[:32] for name in (CONFIGURATION, LOCK_FILE))
    except FileNotFoundError:
        return ""


def _sidecar_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


