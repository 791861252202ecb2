"""A saved plan: its file, its basis for checks, and its contents."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from terradask._common.checksum import sha256_of_file
from terradask._plans.basis import PlanArchive, PlanBasis, check_planned_configuration
from terradask._plans.summary import PlanSummary, summarise
from terradask._terraform.events import PlanFile
from terradask.errors import InvalidInput, PlanChanged
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.files import write_whole
from terradask_stacks.settings import validate_cluster_name

SIDECAR_FORMAT = 3
PLAN_NAME = "plan.tfplan"


@dataclass(frozen=True)
class _Sidecar:
    """The JSON beside a plan's file, with which another process can check it."""

    basis: PlanBasis
    file: PlanFile


_SIDECAR = TypeAdapter(_Sidecar)


def _checksum(document: Mapping[str, Any]) -> str:
    """Return a checksum of the sidecar, which detects edits."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


class Plan:
    """A saved plan of one stack.

    Read `summary`, then pass the plan to `Workspace.apply`, which applies exactly this file or
    refuses.

    Parameters
    ----------
    folder
        Folder in which Terraform runs.
    plan_file
        The file and its checksum.
    basis
        Versions, place and state that it was made from.
    show
        Returns the plan's JSON; called when `summary` is read.
    opened
        Whether it comes from a file instead of this process.
    expected
        The configuration synthesised from the settings and the locked answers, with which policy
        compares the plan.
    """

    def __init__(
        self,
        *,
        folder: Path,
        plan_file: PlanFile,
        basis: PlanBasis,
        show: Callable[[PlanFile], Mapping[str, Any]],
        opened: bool = False,
        expected: bytes | None = None,
    ) -> None:
        self.folder = folder
        self.plan_file = plan_file
        self.basis = basis
        self.opened = opened
        self.expected = expected
        self._show = show
        self._document: Mapping[str, Any] | None = None
        self._summary: PlanSummary | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        counts = f"+{self.plan_file.add} ~{self.plan_file.change} -{self.plan_file.remove}"
        return f"Plan({self.stack!r}, {counts}, sha256={self.hash[:12]!r})"

    @property
    def stack(self) -> str:
        """The stack: ``network``, or the cluster's name."""
        return self.basis.stack

    @property
    def destroy(self) -> bool:
        """Whether it destroys the stack."""
        return self.basis.destroy

    @property
    def file(self) -> Path:
        """The plan's file. It contains the state and secrets in plain text; `summary` doesn't."""
        return self.plan_file.path

    @property
    def hash(self) -> str:
        """SHA-256 of the file."""
        return self.plan_file.sha256

    @property
    def creates(self) -> tuple[str, ...]:
        """The addresses of the resources that it creates."""
        return self.plan_file.creates

    @property
    def removes(self) -> bool:
        """Whether it deletes or replaces anything."""
        return self.plan_file.remove > 0

    @property
    def changed(self) -> bool:
        """Whether applying the plan would change a resource."""
        return self.plan_file.changed

    @property
    def shown(self) -> bool:
        """Whether `document` was read already."""
        return self._document is not None

    @property
    def document(self) -> Mapping[str, Any]:
        """Terraform's own JSON of the plan, with secrets in plain text: for checks, not for
        display.

        Terraform creates it when this, or `summary`, is first read, in about a second.
        """
        with self._lock:
            if self._document is None:
                self._document = self._show(self.plan_file)
            return self._document

    @property
    def summary(self) -> PlanSummary:
        """The plan's changes, as typed data without secrets."""
        with self._lock:
            if self._summary is None:
                self._summary = summarise(self.document, stack=self.stack, plan_hash=self.hash)
            return self._summary

    def check(self) -> None:
        """Refuse if the file or the folder's configuration has changed, or the plan is too old.

        Raises
        ------
        PlanChanged
            Naming which.
        """
        self.check_file()
        self.basis.check_expiry()
        self.basis.check_configuration(self.folder)
        check_planned_configuration(self.file, self.folder)

    def check_file(self) -> None:
        """Refuse if the file has changed.

        Raises
        ------
        PlanChanged
            With ``file``.
        """
        if not self.file.is_file():
            raise PlanChanged(
                "the plan's file is missing: it was applied, or removed",
                what="file",
                given=str(self.file),
            )
        found = sha256_of_file(self.file)
        if found != self.hash:
            raise PlanChanged(
                "the plan's file has changed since it was made",
                what="file",
                given=f"{self.file} has sha256 {found}, not {self.hash}",
            )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the plan for `Workspace.open_plan`, in another process or on another machine.

        Parameters
        ----------
        path
            The file, or the folder for it; a small JSON file is written next to it, and must stay
            there. Both are readable only by their owner: the plan contains secrets in plain text.

        Returns
        -------
        Path
            The file.
        """
        file = _file_of(Path(path))
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        entry = _Sidecar(self.basis, self.plan_file)
        # The file's place has no meaning on another machine.
        held = _SIDECAR.dump_python(entry, mode="json", exclude={"file": {"path"}})
        document = {"format": SIDECAR_FORMAT, **held}
        document["checksum"] = _checksum(document)
        write_whole(file, self.file.read_bytes())
        write_whole(_sidecar_of(file), json.dumps(document, indent=1).encode())
        return file

    def remove(self) -> None:
        """Remove the file and its sidecar: it contains secrets, and can't be applied twice."""
        self.file.unlink(missing_ok=True)
        _sidecar_of(self.file).unlink(missing_ok=True)


def open_plan(
    saved: Path, *, stacks: Path, show_in: Callable[[Path, PlanFile], Mapping[str, Any]]
) -> Plan:
    """Open a saved plan of a stack in `stacks`. Raises `InvalidInput`, `PlanChanged`."""
    path = _file_of(saved)
    entry = _read_sidecar(saved, path)
    if entry.basis.stack != NETWORK_STACK:
        # The stack's name becomes part of folder and object names.
        validate_cluster_name(entry.basis.stack)
    basis, folder = entry.basis, stacks / entry.basis.stack
    plan = Plan(
        folder=folder,
        plan_file=entry.file,
        basis=basis,
        show=lambda file: show_in(folder, file),
        opened=True,
    )
    plan.check_file()
    written = PlanArchive.read(path)
    if (written.terraform_version, written.state.serial, written.state.lineage) != (
        basis.terraform_version,
        basis.serial,
        basis.lineage,
    ):
        raise _edited(path)
    return plan


def _read_sidecar(saved: Path, path: Path) -> _Sidecar:
    sidecar = _sidecar_of(path)
    try:
        document = json.loads(sidecar.read_text(encoding="utf-8"))
        checksum = document.pop("checksum")
        if document["format"] != SIDECAR_FORMAT:
            raise ValueError("its format is unknown")
        file = {**document["file"], "path": path}
        entry = _SIDECAR.validate_python({**document, "file": file})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            "no saved plan was found",
            given=f"{saved}: {error}",
            allowed=f"a plan with {sidecar.name} next to it, as `terradask plan --out` writes them",
            advice="plan again",
        ) from error
    if checksum != _checksum(document):
        raise _edited(path)
    return entry


def _edited(path: Path) -> PlanChanged:
    return PlanChanged(
        "the JSON beside the plan's file was edited since the plan was made",
        what="sidecar",
        given=str(_sidecar_of(path)),
    )


def _file_of(path: Path) -> Path:
    path = path.absolute()
    return path / PLAN_NAME if path.is_dir() or not path.suffix else path


def _sidecar_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
