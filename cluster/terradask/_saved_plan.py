"""A plan that was made and may be applied: its file, what it was made from, and what it says."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from terradask._plan import PlanSummary, summarise
from terradask._plan_file import PlanFile, PlannedChange, sha256_of
from terradask._terraform import CONFIGURATION, LOCK_FILE
from terradask.errors import InvalidInput, PlanChanged

SIDECAR_FORMAT = 1
PLAN_NAME = "plan.tfplan"


@dataclass(frozen=True)
class _Sidecar:
    """What lies beside a plan's file, so that another process can check it."""

    stack: str
    sha256: str
    configuration_sha256: str
    destroy: bool
    add: int
    change: int
    remove: int
    creates: list[str]
    imports: int = 0


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
    def creates(self) -> tuple[str, ...]:
        """The addresses of what it creates."""
        return tuple(change.address for change in self.plan_file.changes if change.action == "create")

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
            raise PlanChanged("the plan's file is gone: it was applied, or removed", what="file", given=str(self.file))
        found = sha256_of(self.file)
        if found != self.hash:
            raise PlanChanged(
                "the plan's file has changed since it was made", what="file", given=f"{self.file} has sha256 {found}, not {self.hash}"
            )
        if configuration_sha256(self.folder) != self.configuration_sha256:
            raise PlanChanged("the configuration has changed since the plan was made", what="configuration", given=str(self.folder))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the plan for `Workspace.open_plan`, in another process or on another machine.

        Parameters
        ----------
        path
            The file, or the folder for it; beside it comes a small JSON file, which has to stay with it. Both are readable by their owner
            alone: the plan has secrets in plain text.

        Returns
        -------
        Path
            The file.
        """
        file = _file_of(Path(path))
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        entry = _Sidecar(
            stack=self.stack,
            sha256=self.hash,
            configuration_sha256=self.configuration_sha256,
            destroy=self.destroy,
            add=self.plan_file.add,
            change=self.plan_file.change,
            remove=self.plan_file.remove,
            creates=list(self.creates),
            imports=self.plan_file.imports,
        )
        _write(file, self.file.read_bytes())
        _write(_sidecar_of(file), json.dumps({"format": SIDECAR_FORMAT, **asdict(entry)}, indent=1).encode())
        return file

    def remove(self) -> None:
        """Remove the file and what lies beside it: it holds secrets, and can't be applied twice."""
        self.file.unlink(missing_ok=True)
        _sidecar_of(self.file).unlink(missing_ok=True)


def open_plan(saved: Path, *, folder_of: Callable[[str], Path], show_in: Callable[[Path, PlanFile], Mapping[str, Any]]) -> Plan:
    """Open a plan that `Plan.save` saved.

    Parameters
    ----------
    saved
        The file, or its folder.
    folder_of
        Returns the folder of a stack.
    show_in
        Returns a plan's JSON, given the folder of its stack.

    Raises
    ------
    InvalidInput
        If there is no plan of terradask's.
    """
    path = _file_of(saved)
    try:
        document = json.loads(_sidecar_of(path).read_text(encoding="utf-8"))
        if document.pop("format") != SIDECAR_FORMAT:
            raise ValueError("its format is another one")
        entry = _Sidecar(**document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            "there is no plan that terradask saved",
            given=f"{saved}: {error}",
            allowed=f"a plan with {_sidecar_of(path).name} beside it, as `terradask plan --out` writes them",
            advice="plan again",
        ) from error
    folder = folder_of(entry.stack)
    return Plan(
        stack=entry.stack,
        folder=folder,
        plan_file=PlanFile(
            path,
            entry.sha256,
            tuple(PlannedChange(address, "create") for address in entry.creates),
            entry.add,
            entry.change,
            entry.remove,
            entry.imports,
        ),
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


def _file_of(path: Path) -> Path:
    path = path.absolute()
    return path / PLAN_NAME if path.is_dir() or not path.suffix else path


def _sidecar_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _write(path: Path, content: bytes) -> None:
    """Write a file that its owner alone may read, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    Path(temporary).replace(path)
