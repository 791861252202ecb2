"""Save and read the folder of `terradask plan`: plans of several stacks, and one report on them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask._common.json_text import read_object
from terradask._common.naming import some
from terradask._plans.policy.writers import to_sarif
from terradask._plans.render_markdown import to_markdown
from terradask._plans.render_terminal import to_json
from terradask._plans.report import REPORT_FORMAT, WorkspaceReport
from terradask._plans.saved import PLAN_NAME, Plan
from terradask.errors import InvalidInput, PlanChanged, TerradaskError

REPORT_JSON = "report.json"
REPORT_MARKDOWN = "report.md"
#: One stack's policy findings, for code hosts.
REPORT_SARIF = "report.sarif"
#: Files that terradask writes; other files are never removed.
_PLAN_FILES = (PLAN_NAME, f"{PLAN_NAME}.json")
_REPORT_FILES = (REPORT_JSON, REPORT_MARKDOWN, REPORT_SARIF)
#: Keeps the folder out of git: plans contain the state in plain text.
_IGNORE = ".gitignore"
_IGNORE_ALL = "*\n"
_FOREIGN_NAMED = 5


@dataclass(frozen=True)
class Plans:
    """Plans of several stacks of one workspace.

    Parameters
    ----------
    plans
        The plans, in the order in which they are to be applied.
    report
        The report for a reviewer: these plans, and the stacks that have none.
    errors
        Why stacks could not be planned.
    """

    plans: tuple[Plan, ...]
    report: WorkspaceReport
    errors: tuple[TerradaskError, ...] = ()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save plans and reports for `Workspace.open_plans`, replacing those of an earlier call.

        Parameters
        ----------
        folder
            The folder; each stack gets a folder in it.

        Raises
        ------
        InvalidInput
            If something else is in the folder.
        """
        PlanFolder(Path(folder)).write(self.report, self.plans)


class PlanFolder:
    """The folder of one ``terradask plan``: each stack's plan and report, and a common report."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def report(self) -> dict[str, Any] | None:
        """The last report as JSON data; None if this version can't read one."""
        document = read_object(self.path / REPORT_JSON)
        readable = document.get("format") == REPORT_FORMAT
        return document if readable and isinstance(document.get("stacks"), dict) else None

    def check_own(self) -> None:
        """Refuse a folder with files that terradask didn't write. Raises `InvalidInput`."""
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInput(
                "plans are saved into a folder",
                given=self.path,
                allowed="a folder, new or of an earlier plan",
            )
        foreign = [str(path.relative_to(self.path)) for path in self._foreign()]
        if foreign:
            raise InvalidInput(
                "the folder for plans contains other files",
                given=f"{self.path}: {some(foreign, _FOREIGN_NAMED)}",
                allowed="a new or empty folder, or one of an earlier plan",
                advice="name another folder with --out",
            )

    def write(self, report: WorkspaceReport, plans: Sequence[Plan]) -> None:
        """Replace an earlier plan's files with these plans and their reports."""
        self.check_own()
        self._clear()
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        # First, so that git ignores the plans even after an interruption.
        (self.path / _IGNORE).write_text(_IGNORE_ALL, encoding="utf-8")
        for plan in plans:
            folder = self.path / plan.stack
            plan.save(folder / PLAN_NAME)
            of_stack = next(one for one in report.plans if one.stack == plan.stack)
            _write_report(folder, to_json(of_stack), report.only(plan.stack))
            sarif = to_sarif(
                of_stack.findings, version=report.context.terradask_version, stack=plan.stack
            )
            (folder / REPORT_SARIF).write_text(sarif, encoding="utf-8")
        # Last: without it a folder is incomplete.
        _write_report(self.path, to_json(report), report)

    def plans(self) -> list[Path]:
        """Return the checked plan files in order. Raises `InvalidInput`, `PlanChanged`."""
        report = self.report
        if report is None:
            raise InvalidInput(
                "the folder contains no saved plan",
                given=f"{self.path} has no {REPORT_JSON}",
                allowed="a complete folder of `terradask plan --out`, or a plan's file",
                advice="plan again",
            )
        return [self._reported(stack, entry) for stack, entry in report["stacks"].items()]

    def _reported(self, stack: str, entry: Any) -> Path:
        file = self.path / stack / PLAN_NAME
        try:
            sidecar = json.loads(file.with_name(f"{PLAN_NAME}.json").read_text(encoding="utf-8"))
            saved = sidecar["file"]["sha256"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PlanChanged(
                f"the plan of {stack} is missing: it was applied, or removed",
                what="file",
                given=str(file),
            ) from error
        if not isinstance(entry, dict) or saved != entry.get("plan_sha256"):
            raise PlanChanged(
                f"the plan of {stack} isn't that of the report", what="report", given=str(file)
            )
        return file

    def _clear(self) -> None:
        for path in list(self._entries()):
            if path.is_dir():
                for inner in list(path.iterdir()):
                    inner.unlink()
                path.rmdir()
            else:
                path.unlink()

    def _entries(self) -> Iterator[Path]:
        return self.path.iterdir() if self.path.is_dir() else iter(())

    def _foreign(self) -> Iterator[Path]:
        for path in sorted(self._entries()):
            if path.is_dir() and not path.is_symlink():
                yield from (inner for inner in sorted(path.iterdir()) if not _is_own(inner))
            elif not _is_own(path) and not _is_ignore(path):
                yield path


def _is_own(path: Path) -> bool:
    names = (*_PLAN_FILES, *_REPORT_FILES)
    # An interrupted write leaves a hidden file with a suffix.
    own = path.name in names or any(path.name.startswith(f".{name}.") for name in names)
    return own and not path.is_dir()


def _is_ignore(path: Path) -> bool:
    # A .gitignore with other rules isn't terradask's.
    return (
        path.name == _IGNORE and path.is_file() and path.read_bytes() in (_IGNORE_ALL.encode(), b"")
    )


def _write_report(folder: Path, text: str, report: WorkspaceReport) -> None:
    (folder / REPORT_MARKDOWN).write_text(to_markdown(report), encoding="utf-8")
    (folder / REPORT_JSON).write_text(text, encoding="utf-8")
