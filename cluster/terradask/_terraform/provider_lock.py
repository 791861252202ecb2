"""The provider's lock file for each program: each registry has packages of its own, so their
addresses and checksums differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from terradask._terraform.binary import find_terraform
from terradask._terraform.folder_contents import LOCK_FILE
from terradask._terraform.program import OPENTOFU, TERRAFORM, Program
from terradask.errors import SetupError
from terradask_stacks import synthesis
from terradask_stacks.user_folders import data_folder


def own_provider_lock() -> Path | None:
    """Return the user's own lock file of the provider. A repository's isn't used: its checksums
    could make Terraform run a provider that lies in the repository.
    """
    own = data_folder() / LOCK_FILE
    return own if own.is_file() else None


def provider_lock(program: Program) -> Path:
    """Return a program's lock file: the user's own if it is for this program, or terradask's."""
    own = own_provider_lock()
    if own is not None and _is_for(own, program):
        return own
    return synthesis.OPENTOFU_LOCK_HCL if program is OPENTOFU else synthesis.LOCK_HCL


def lock_in_use(environ: Mapping[str, str]) -> Path:
    """Return the lock file of the program that will run; Terraform's if there is none."""
    try:
        return provider_lock(find_terraform(environ).program)
    except SetupError:
        return provider_lock(TERRAFORM)


def _is_for(lock: Path, program: Program) -> bool:
    try:
        return f'"{program.provider}"' in lock.read_text(encoding="utf-8")
    except OSError:
        return False
