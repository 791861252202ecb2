"""The workspaces of several folders: found, and each worked on by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from terradask._aws.translation import reason_of
from terradask._common.progress import Progress, warnings_logged
from terradask._workspace.workspace import Workspace
from terradask.errors import InvalidInput, TerradaskError, TerraformCancelled
from terradask_stacks.files import foreign_owner
from terradask_stacks.loading import FILE_NAME

#: Folders of generated files, which are never searched; nor are hidden ones.
_SKIPPED = frozenset({"cdktf.out", "node_modules", "__pycache__"})

Found = TypeVar("Found")


@dataclass(frozen=True)
class InFolder(Generic[Found]):
    """The result of one workspace's folder, or its error."""

    #: The folder, relative to the working directory if it is below that.
    folder: str
    #: The result; None after an error.
    found: Found | None = None
    error: TerradaskError | None = None
    #: `workspace`, `region`, `account`: The workspace's name, region and account, where known.
    workspace: str | None = None
    region: str | None = None
    account: str | None = None

    @property
    def reason(self) -> str | None:
        """The error on one line."""
        return None if self.error is None else " ".join(str(self.error).split())

    def as_dict(self) -> dict[str, Any]:
        """Return where it is, and what is wrong, as JSON data."""
        return {
            "folder": self.folder,
            "account": self.account,
            "region": self.region,
            "workspace": self.workspace,
            "error": None if self.error is None else self.error.as_dict(),
        }


def workspace_folders(roots: Sequence[Path]) -> list[Path]:
    """Return the folders with a settings file, the given ones and those below them.

    Hidden folders aren't searched, and no symbolic link is followed. Raises `InvalidInput` if
    there is none.
    """
    found = sorted({folder for root in roots for folder in _below(root)})
    if not found:
        raise InvalidInput(
            f"no folder has a {FILE_NAME}",
            given=", ".join(map(str, roots)),
            allowed=f"folders with a {FILE_NAME}, at any depth",
            advice="name the folder above them with --in; terradask init writes such a file",
        )
    return found


def _below(root: Path) -> Iterator[Path]:
    for folder, inside, files in os.walk(root):
        inside[:] = [one for one in inside if not one.startswith(".") and one not in _SKIPPED]
        if FILE_NAME in files:
            yield Path(folder).absolute()


def in_each(
    folders: Iterable[Path],
    work: Callable[[Workspace], Found],
    *,
    progress: Progress = warnings_logged,
    at_once: int = 8,
) -> list[InFolder[Found]]:
    """Do the same in each workspace, several at once; an error in one leaves the others alone."""

    def one(folder: Path) -> InFolder[Found]:
        return _work(folder, work, progress)

    if at_once == 1:
        # In this thread, which Ctrl-C reaches.
        return list(map(one, folders))
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, folders))


def _work(folder: Path, work: Callable[[Workspace], Found], progress: Progress) -> InFolder[Found]:
    from botocore.exceptions import BotoCoreError, ClientError

    here: InFolder[Found] = InFolder(_shown(folder))
    try:
        _check_own(folder)
        workspace = Workspace.load(folder, progress=progress)
        of = workspace.settings.workspace
        here = replace(here, workspace=of.name, region=of.region, account=of.account)
        here = replace(here, account=workspace.account_id)
        return replace(here, found=work(workspace))
    except TerraformCancelled:
        raise
    except TerradaskError as error:
        return replace(here, error=error)
    except (BotoCoreError, ClientError, OSError) as error:
        failed = TerradaskError(reason_of(error))
        failed.__cause__ = error
        return replace(here, error=failed)


def _check_own(folder: Path) -> None:
    """Refuse another user's file, as where it is found above the working directory."""
    owner = foreign_owner(folder / FILE_NAME, folder)
    if owner is not None:
        raise InvalidInput(
            "another user controls this settings file",
            given=f"user {owner}",
            allowed="a file and folder of your own, or of root",
            advice=f"if you trust it, name its folder: terradask -C {folder} ...",
        )


def _shown(folder: Path) -> str:
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)
