"""The one seam to Terraform: its verbs in one stack's folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from terradask._common.checksum import sha256_of_file
from terradask._common.json_text import read_object
from terradask._terraform.commands import FLAG, TerraformCommands
from terradask._terraform.errors import needs_init
from terradask._terraform.events import CommandOutput
from terradask._terraform.folder_contents import (
    BACKEND_RECORD,
    CONFIGURATION,
    DATA,
    LOCK_FILE,
    STAMP,
    check_contents,
)
from terradask._terraform.plan_file import PlanFile
from terradask._terraform.state.lock import BreakLock, run_past_lock
from terradask._terraform.state.lock_info import LockInfo
from terradask.errors import TerraformError


@dataclass(eq=False, repr=False)
class Terraform(TerraformCommands):
    """Terraform in one stack's folder.

    A first Ctrl-C (or `cancel`) sends Terraform one SIGINT and waits for its orderly stop; after a
    second one it is killed a few seconds later. The lock that a Terraform killed here leaves on a
    state is removed by the next command here; one that Terraform took without learning of it is
    removed at once. Another user's is an error.
    """

    _: KW_ONLY
    break_lock: BreakLock | None = None
    #: Returns the lock on the state, where Terraform doesn't say whose it is.
    find_lock: Callable[[], LockInfo | None] = lambda: None
    before_init: Callable[[], None] = lambda: None
    state_lock_seconds: int = 10

    def configuration(self) -> dict[str, Any]:
        """Return the synthesised configuration."""
        return dict(json.loads((self.folder / CONFIGURATION).read_text(encoding="utf-8")))

    def init(self, *, again: bool = False) -> bool:
        """Initialise the folder if necessary: the provider by the lock file, and the backend;
        return whether it was.

        Raises `TerraformError`, such as `ProviderUnavailable` and `BackendMissing`.
        """
        with self.lock:
            check_contents(self.folder)
            configuration = self.configuration()
            key = init_key(
                configuration,
                lock_file=self.folder / LOCK_FILE,
                cli_config=self.provider_source.cli_config,
                terraform_version=self.binary.version_text,
            )
            stamp = InitStamp(self.folder, key)
            if not again and stamp.holds:
                return False
            stamp.remove()
            # Terraform downloads the providers that a state names, too.
            self.before_init()
            self._stream("init", reconfigure=FLAG, lockfile="readonly")
            stamp.write()
            return True

    def plan(
        self, out: Path, *, destroy: bool = False, refresh: bool = True, refresh_only: bool = False
    ) -> PlanFile:
        """Plan, and save the plan. Raises `StateLocked`, `TerraformError`."""
        out = out.absolute()
        out.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        options: dict[str, Any] = {"out": str(out)}
        if destroy:
            options["destroy"] = FLAG
        if refresh_only:
            options["refresh_only"] = FLAG
        if not refresh:
            options["refresh"] = False
        with self.lock:
            output = self._lock_state_or_init("plan", **options)
        out.chmod(0o600)
        counts = {name: int(output.counts.get(name, 0)) for name in ("add", "change", "remove")}
        return PlanFile(
            out,
            sha256_of_file(out),
            tuple(output.creates),
            **counts,
            imports=int(output.counts.get("import", 0)),
        )

    def show(self, plan: PlanFile | Path) -> dict[str, Any]:
        """Return a saved plan as Terraform's JSON, with its secrets in plain text."""
        return dict(self._read("show", _path_of(plan), json=FLAG))

    def apply(self, plan: PlanFile | Path) -> Mapping[str, Any]:
        """Apply exactly a saved plan.

        Raises `StalePlan`, `TerraformError`.
        """
        with self.lock:
            return self._lock_state("apply", _path_of(plan)).counts

    def destroy(self, *, refresh: bool = True) -> Mapping[str, Any]:
        """Destroy everything in the stack, without a plan that was looked at."""
        options: dict[str, Any] = {"destroy": FLAG, "auto_approve": FLAG}
        if not refresh:
            options["refresh"] = False
        with self.lock:
            return self._lock_state_or_init("apply", **options).counts

    # ---- the state's lock ------------------------------------------------------------------------

    def force_unlock(self, lock_id: str) -> None:
        """Remove a lock from the state that a killed command left behind."""
        self._capture("force-unlock", lock_id, force=FLAG)

    def _lock_state_or_init(self, verb: str, **options: Any) -> CommandOutput:
        """Run a command that locks the state, again after initialising if it needs that."""
        try:
            return self._lock_state(verb, **options)
        except TerraformError as error:
            if not needs_init(error):
                raise
            self.init(again=True)
            return self._lock_state(verb, **options)

    def _lock_state(self, verb: str, *arguments: str, **options: Any) -> CommandOutput:
        """Run a command that locks the state."""
        return run_past_lock(
            lambda seconds: self._stream(verb, *arguments, lock_timeout=f"{seconds}s", **options),
            limit_seconds=self.state_lock_seconds,
            folder_lock=self.lock,
            break_lock=self.break_lock or (lambda lock, proof: self.force_unlock(str(lock.id))),
            find_lock=self.find_lock,
            on_wait=self.on_wait,
        )


def _path_of(plan: PlanFile | Path) -> str:
    return str((plan.path if isinstance(plan, PlanFile) else plan).absolute())


# ---- whether a stack's folder is initialised -----------------------------------------------------


@dataclass(frozen=True)
class InitStamp:
    """Notes in a folder what ``terraform init`` made it ready for."""

    #: The stack's folder.
    folder: Path
    #: A checksum over everything that ``init`` depends on, as `init_key` makes it.
    key: str

    @property
    def holds(self) -> bool:
        """Whether the folder was initialised for the same key, and still has what that made."""
        # <host>/<namespace>/<type>/<version>/<platform>: links into the mirror.
        packages = list((self.folder / ".terraform/providers").glob("*/*/*/*/*"))
        present = bool(packages) and all(package.exists() for package in packages)
        return (
            present
            and (self.folder / DATA / BACKEND_RECORD).is_file()
            and read_object(self._path).get("key") == self.key
        )

    def remove(self) -> None:
        """Note that the folder isn't initialised: while ``init`` runs, and if it fails."""
        self._path.unlink(missing_ok=True)

    def write(self) -> None:
        """Note that the folder is initialised."""
        self._path.write_text(json.dumps({"key": self.key}), encoding="utf-8")

    @property
    def _path(self) -> Path:
        return self.folder / DATA / STAMP


def init_key(
    configuration: Mapping[str, Any],
    *,
    lock_file: Path,
    cli_config: Path | None,
    terraform_version: str,
) -> str:
    """Return a checksum over everything that ``init`` depends on."""
    parts = {
        "terraform": configuration.get("terraform"),
        "module": configuration.get("module"),
        "lock": _content(lock_file),
        "version": terraform_version,
        "cli_config": _content(cli_config) if cli_config else "",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
