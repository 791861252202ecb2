"""The one seam to Terraform: command lines, processes, events and errors of one stack's folder."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terradask import _process
from terradask._aws import is_loopback_endpoint
from terradask._events import Diagnostic, Event, parse_event
from terradask._folder_lock import FolderLock
from terradask._provider_mirror import VARIABLE as CLI_CONFIG_VARIABLE
from terradask._provider_mirror import ProviderSource, cli_config_in_use
from terradask._terraform_binary import TerraformBinary, find_terraform
from terradask._terraform_errors import error_of, left_by_killed, needs_init
from terradask.errors import FolderBusy, StateLocked, TerraformCancelled, TerraformError

CONFIGURATION = "cdk.tf.json"
LOCK_FILE = ".terraform.lock.hcl"
#: Longest time that a request to create something takes to be answered, usually.
REQUEST_SECONDS = 1.5

_STAMP = ".terraform/terradask.json"

#: Would change what our command lines mean, or where Terraform keeps things.
_DROPPED_VARIABLES = ("TF_WORKSPACE", "TF_DATA_DIR", "TF_CLI_ARGS", "TF_VAR_")


@dataclass(frozen=True)
class PlannedChange:
    """One change, as ``terraform plan`` announces it.

    Parameters
    ----------
    address
        The resource.
    action
        ``create``, ``update``, ``delete``, ``replace``, ``read``, ….
    """

    address: str
    action: str


@dataclass(frozen=True)
class PlanFile:
    """A saved plan.

    Parameters
    ----------
    path
        The file. It holds the state and secrets in plain text: readable by its owner alone.
    sha256
        Its checksum.
    changes
        What it changes.
    add, change, remove
        Terraform's counts; a replacement counts as one to add and one to remove.
    imports
        How many resources that exist it takes into the state.
    """

    path: Path
    sha256: str
    changes: tuple[PlannedChange, ...] = ()
    add: int = 0
    change: int = 0
    remove: int = 0
    imports: int = 0

    @property
    def changed(self) -> bool:
        """Whether applying it would change a resource, or what the state knows."""
        return bool(self.add or self.change or self.remove or self.imports)


@dataclass(frozen=True)
class StateInfo:
    """What is known of a state.

    Parameters
    ----------
    serial, lineage
        Terraform's own: how often it was written, and which state it is.
    ids
        The resources in it, without data sources: address -> id.
    """

    serial: int
    lineage: str
    ids: Mapping[str, str]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the resources in it."""
        return tuple(self.ids)


@dataclass
class _Heard:
    """What a command has said."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    changes: list[PlannedChange] = field(default_factory=list)
    counts: Mapping[str, Any] = field(default_factory=dict)
    #: When each creation that is under way began.
    creating: dict[str, float] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Remember what matters of an event."""
        if event.diagnostic is not None:
            self.diagnostics.append(event.diagnostic)
        elif event.type == "change_summary":
            self.counts = event.changes
        elif event.address is None:
            return
        elif event.type == "planned_change":
            self.changes.append(PlannedChange(event.address, event.action or "update"))
        elif event.type == "apply_start" and event.action == "create":
            self.creating[event.address] = time.monotonic()
        elif event.type in ("apply_complete", "apply_errored"):
            self.creating.pop(event.address, None)

    def between_requests(self) -> bool:
        """Tell whether no request to create something seems to be on its way.

        When Terraform is asked to stop, the provider drops such requests, and AWS may make what no state will know. A creation that has
        gone on for longer waits for AWS: Terraform has its id, and keeps it.
        """
        youngest = max(self.creating.values(), default=0.0)
        return time.monotonic() - youngest >= REQUEST_SECONDS


def sha256_of(path: Path) -> str:
    """Return a file's checksum, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Terraform:
    """Terraform in one stack's folder.

    Parameters
    ----------
    folder
        The folder that holds the synthesised configuration and the lock file.
    environ
        The environment that Terraform gets, after a few changes. Unset: this process's.
    on_event
        Called with every event of every command, in the thread that runs it.
    on_wait
        Called once with a text when there is something to wait for: another process, or an interrupted Terraform.
    folder_limit_seconds
        How long to wait for another process in the same folder.
    state_lock_seconds
        How long Terraform waits for the state's lock.

    Notes
    -----
    A first Ctrl-C (or `cancel`) sends Terraform one SIGINT and waits for its orderly stop; after a second one it is killed a few seconds
    later. The lock that a Terraform killed here leaves on a state is removed by the next command here; anybody else's is an error.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_wait: Callable[[str], None] | None = None,
        folder_limit_seconds: float = 600.0,
        state_lock_seconds: int = 10,
    ) -> None:
        self.folder = folder
        self._given_environ = dict(os.environ if environ is None else environ)
        self._on_event = on_event
        self._on_wait = on_wait or (lambda text: None)
        self._state_lock_seconds = state_lock_seconds
        self._cancelled = threading.Event()
        self._binary: TerraformBinary | None = None
        #: Held while Terraform works here; take it around several commands that belong together.
        #: It lies beside the folder, which synthesis may write anew.
        self.lock = FolderLock(folder.with_name(f".{folder.name}.lock"), limit_seconds=folder_limit_seconds, on_wait=self._tell_busy)

    # ---- what runs ---------------------------------------------------------------------------------------------------

    @property
    def binary(self) -> TerraformBinary:
        """The Terraform that runs; found at the first use."""
        if self._binary is None:
            self._binary = find_terraform(self._given_environ)
        return self._binary

    @property
    def provider_source(self) -> ProviderSource:
        """Where Terraform gets the provider from."""
        return cli_config_in_use(self._given_environ)

    def environ(self) -> dict[str, str]:
        """Return the environment that Terraform gets."""
        kept = {k: v for k, v in self._given_environ.items() if not k.startswith(_DROPPED_VARIABLES)}
        kept.update(TF_IN_AUTOMATION="1", TF_INPUT="0", CHECKPOINT_DISABLE="1")
        source = self.provider_source
        if source.kind == "mirror":
            kept[CLI_CONFIG_VARIABLE] = str(source.cli_config)
        elif source.kind == "registry":
            # What it names is missing; Terraform would warn on each command.
            kept.pop(CLI_CONFIG_VARIABLE, None)
        if is_loopback_endpoint(kept):
            kept.pop("AWS_CA_BUNDLE", None)
        return kept

    def cancel(self) -> None:
        """Ask the running command to stop in order, from any thread; it raises `TerraformCancelled`, unless it finishes first."""
        self._cancelled.set()

    # ---- verbs -------------------------------------------------------------------------------------------------------

    def init(self, *, again: bool = False) -> bool:
        """Initialise the folder: the provider by the lock file, and the backend.

        Parameters
        ----------
        again
            Initialise even where nothing that matters has changed.

        Returns
        -------
        bool
            Whether Terraform ran; False: the folder was initialised for the same configuration already.

        Raises
        ------
        RegistryUnreachable, ProviderChecksumMismatch, BackendMissing, TerraformError
            As the case may be.
        """
        with self.lock:
            # Terraform would say that a state is broken, and not what to do about it.
            self._check_local_state()
            key = self._init_key()
            if not again and self._initialised(key):
                return False
            (self.folder / _STAMP).unlink(missing_ok=True)
            # A state is never migrated: each has one fixed place.
            self._stream("init", json=_FLAG, reconfigure=_FLAG, lockfile="readonly")
            (self.folder / _STAMP).write_text(json.dumps({"key": key}), encoding="utf-8")
            return True

    def plan(self, out: Path, *, destroy: bool = False, refresh: bool = True) -> PlanFile:
        """Plan, and save the plan.

        Parameters
        ----------
        out
            Where the plan is saved. It gets readable by its owner alone.
        destroy
            Plan to destroy everything in the stack.
        refresh
            Look at what is deployed first.

        Raises
        ------
        StateLocked
            If somebody else works on the same state.
        TerraformError
            If the plan can't be made.
        """
        out = out.absolute()
        out.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        options: dict[str, Any] = {"json": _FLAG, "out": str(out), "lock_timeout": self._lock_timeout}
        if destroy:
            options["destroy"] = _FLAG
        if not refresh:
            options["refresh"] = False
        with self.lock:
            heard = self._stream_or_init("plan", **options)
        out.chmod(0o600)
        counts = {name: int(heard.counts.get(name, 0)) for name in ("add", "change", "remove")}
        return PlanFile(out, sha256_of(out), tuple(heard.changes), **counts, imports=int(heard.counts.get("import", 0)))

    def show(self, plan: PlanFile | Path) -> dict[str, Any]:
        """Return a saved plan as Terraform's JSON. It holds secrets in plain text; only values in `PlanSummary` are masked."""
        path = plan.path if isinstance(plan, PlanFile) else plan
        return dict(self._read("show", str(path.absolute()), json=_FLAG))

    def apply(self, plan: PlanFile | Path) -> Mapping[str, Any]:
        """Apply exactly a saved plan.

        Returns
        -------
        Mapping
            Terraform's counts: ``add``, ``change``, ``remove``.

        Raises
        ------
        StalePlan
            If the state has changed since the plan was made.
        TerraformError
            If something could not be made; what was made is in the state, and the next plan goes on from there.
        """
        path = plan.path if isinstance(plan, PlanFile) else plan
        with self.lock:
            arguments, options = (str(path.absolute()),), {"json": _FLAG, "lock_timeout": self._lock_timeout}
            return self._stream("apply", *arguments, **options).counts

    def destroy(self, *, refresh: bool = True) -> Mapping[str, Any]:
        """Destroy everything in the stack, without a plan that was looked at.

        Parameters
        ----------
        refresh
            Look at what is deployed first. Without, only the state is asked, and data sources are not read.

        Returns
        -------
        Mapping
            Terraform's counts.
        """
        options: dict[str, Any] = {"json": _FLAG, "destroy": _FLAG, "auto_approve": _FLAG, "lock_timeout": self._lock_timeout}
        if not refresh:
            options["refresh"] = False
        with self.lock:
            return self._stream_or_init("apply", **options).counts

    def output(self) -> dict[str, Any]:
        """Return the stack's outputs, by name."""
        return {name: entry["value"] for name, entry in self._read("output", json=_FLAG).items()}

    def state(self) -> StateInfo | None:
        """Return what is known of the state; None where there is none yet.

        Raises
        ------
        TerraformError
            If the state can't be read.
        """
        local = self._local_state()
        document = self._read("state pull") if local is None else _document(local)
        if not document:
            return None
        ids = {
            ".".join(filter(None, (r.get("module"), r["type"], r["name"]))): str(r["instances"][0].get("attributes", {}).get("id", ""))
            for r in document.get("resources", [])
            if r.get("mode") == "managed" and r.get("instances")
        }
        return StateInfo(int(document["serial"]), str(document["lineage"]), ids)

    def _local_state(self) -> Path | None:
        """Return the state's file, where it is one: reading it takes no process."""
        backend = self.configuration().get("terraform", {}).get("backend", {}).get("local")
        return None if backend is None else self.folder / backend["path"]

    def _check_local_state(self) -> None:
        local = self._local_state()
        if local is not None:
            _document(local)

    def configuration(self) -> dict[str, Any]:
        """Return the synthesised configuration."""
        return dict(json.loads((self.folder / CONFIGURATION).read_text(encoding="utf-8")))

    def force_unlock(self, lock_id: str) -> None:
        """Remove a lock from the state that a killed command left behind.

        Parameters
        ----------
        lock_id
            The lock's id, as `StateLocked` carries it. Another lock is left alone.
        """
        with self.lock:
            done = self._capture(self.command_line("force-unlock", lock_id, force=_FLAG))
            if done.exit_code:
                raise self._error("force-unlock", done.exit_code, [], done.stderr)

    # ---- processes ---------------------------------------------------------------------------------------------------

    def command_line(self, verb: str, *arguments: str, **options: Any) -> list[str]:
        """Return the command line for a verb, as python-terraform builds it.

        Parameters
        ----------
        verb
            The command.
        arguments
            What follows the options.
        options
            Options, with ``_`` for ``-``.
        """
        from python_terraform import IsFlagged
        from python_terraform import Terraform as CommandLines

        # Its constructor reads a state from the working folder: there is none in this one.
        builder = CommandLines(working_dir=os.devnull, terraform_bin_path="terraform")
        given = {name: IsFlagged if value is _FLAG else value for name, value in options.items()}
        line: list[str] = builder.generate_cmd_string(verb, *arguments, **given)
        return [*self.binary.command, *line[1:]]

    @property
    def _lock_timeout(self) -> str:
        # The lock of a command that was killed here isn't worth waiting for.
        return f"{0 if self.lock.killed else self._state_lock_seconds}s"

    def _stream_or_init(self, verb: str, **options: Any) -> _Heard:
        """Run a command, once more after initialising where that is what it needs."""
        try:
            return self._stream(verb, **options)
        except TerraformError as error:
            if not needs_init(error):
                raise
            self.init(again=True)
            return self._stream(verb, **options)

    def _stream(self, verb: str, *arguments: str, **options: Any) -> _Heard:
        """Run a command that prints events, and return what it said."""
        heard = _Heard()
        line = self.command_line(verb, *arguments, **options)
        done = _process.follow(
            line,
            cwd=self.folder,
            environ=self.environ(),
            on_line=lambda text: self._hear(text, heard),
            cancelled=self._cancelled,
            on_stopping=self._tell_stopping,
            pass_fds=self.lock.descriptors,
            on_started=lambda pid: self.lock.note(f"terraform {verb}", pid),
            on_ended=self.lock.note_end,
            may_stop=heard.between_requests,
        )
        if done.cancelled:
            self._cancelled.clear()
        if done.exit_code == 0:
            if verb != "init" and self.lock.killed:
                self.lock.forget_killed()
            return heard
        if done.cancelled:
            raise TerraformCancelled(
                f"terraform {verb} was cancelled and has stopped in order",
                verb=verb,
                folder=str(self.folder),
                exit_code_of_terraform=done.exit_code,
                diagnostics=[d for d in heard.diagnostics if d.severity == "error"],
                advice="run the same command again: it goes on from where this one stopped",
            )
        error = self._error(verb, done.exit_code, heard.diagnostics, done.stderr)
        if not isinstance(error, StateLocked) or not self.lock.killed:
            raise error
        if left_by_killed(error, self.lock.killed):
            self._on_wait("removing the lock on the state that a killed Terraform left here")
            self.force_unlock(str(error.lock_id))
        self.lock.forget_killed()
        return self._stream(verb, *arguments, **{**options, "lock_timeout": self._lock_timeout})

    def _hear(self, text: str, heard: _Heard) -> None:
        event = parse_event(text)
        if event is None:
            return
        heard.take(event)
        if self._on_event is not None:
            self._on_event(event)

    def _read(self, verb: str, *arguments: str, **options: Any) -> Any:
        """Run a command that prints one JSON document."""
        done = self._capture(self.command_line(verb, *arguments, **options))
        if done.exit_code:
            raise self._error(verb, done.exit_code, [], done.stderr)
        if not done.stdout.strip():
            return {}
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise TerraformError(
                f"terraform {verb} printed no JSON", verb=verb, folder=str(self.folder), given=done.stdout[:200]
            ) from error

    def _capture(self, line: list[str]) -> _process.Completed:
        with self.lock:
            return _process.capture(line, cwd=self.folder, environ=self.environ())

    def _error(self, verb: str, exit_code: int, diagnostics: list[Diagnostic], stderr: str) -> Exception:
        return error_of(verb=verb, folder=str(self.folder), exit_code=exit_code, diagnostics=diagnostics, stderr=stderr)

    def _tell_stopping(self) -> None:
        self._on_wait("Terraform has been asked to stop and ends what it has begun; a second Ctrl-C kills it")

    def _tell_busy(self, busy: FolderBusy) -> None:
        self._on_wait(f"waiting: {busy.problem}")

    # ---- initialised? ------------------------------------------------------------------------------------------------

    def _init_key(self) -> str:
        """Return a checksum over everything that `init` depends on."""
        configuration = self.configuration()
        source = self.provider_source
        parts = {
            "terraform": configuration.get("terraform"),
            "module": configuration.get("module"),
            "lock": _content(self.folder / LOCK_FILE),
            "version": self.binary.version_text,
            "cli_config": _content(source.cli_config) if source.cli_config else "",
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _initialised(self, key: str) -> bool:
        try:
            stamp = json.loads((self.folder / _STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        # <host>/<namespace>/<type>/<version>/<platform>: a link into the mirror, which may have gone.
        packages = list((self.folder / ".terraform/providers").glob("*/*/*/*/*"))
        present = bool(packages) and all(package.exists() for package in packages)
        return present and (self.folder / ".terraform/terraform.tfstate").is_file() and stamp.get("key") == key


class _Flag:
    """Marks an option without a value."""


_FLAG = _Flag()


def _document(path: Path) -> Any:
    """Read a state's file. One that is missing or empty holds nothing: Terraform empties it before it writes."""
    text = _content(path)
    try:
        return json.loads(text) if text.strip() else None
    except ValueError as error:
        raise TerraformError(
            "the state can't be read: it was cut off while it was written",
            verb="state",
            given=f"{path}: {error}",
            advice=f"put it aside (mv {path} {path}.broken) and run terradask plan network: it takes what exists into a new state",
        ) from error


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
