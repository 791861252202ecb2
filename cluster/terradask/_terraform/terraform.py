"""Run Terraform's or OpenTofu's commands in one stack's folder, and read their results."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._aws.roles import changed
from terradask._common.checksum import sha256_of_file
from terradask._common.json_text import read_object
from terradask._terraform import process
from terradask._terraform.binary import TerraformBinary, find_terraform
from terradask._terraform.errors import error_of, needs_init
from terradask._terraform.events import STOPPED, CommandOutput, Event, PlanFile, parse_event
from terradask._terraform.folder_contents import (
    BACKEND_RECORD,
    CONFIGURATION,
    DATA,
    LOCK_FILE,
    STAMP,
    check_contents,
)
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.program import Program
from terradask._terraform.provider_mirror import (
    CLI_CONFIG_VARIABLE,
    ProviderSource,
    cli_config_in_use,
)
from terradask._terraform.state.lock import BreakLock, LockInfo, run_past_lock
from terradask.errors import AwsError, Diagnostic, StateLocked, TerraformCancelled, TerraformError
from terradask_modules.programs import environ_for_programs

#: Variables that would change the meaning of command lines, or Terraform's folders.
_DROPPED_VARIABLES = (
    "TF_WORKSPACE",
    "TF_DATA_DIR",
    "TF_CLI_ARGS",
    "TF_VAR_",
    "OPENTOFU_STATEFILE_",
)

#: Resources that are changed at once. The provider waits 5 s for each of a network's 20 launch
#: templates: with Terraform's 10 in turns.
#: AWS (documented): EC2 takes 50 calls of most actions at once, then 5 a second.
#: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
_PARALLELISM = 30

#: Usual longest time until a creation request is answered.
REQUEST_SECONDS = 1.5

#: Marks an option without a value.
FLAG = object()

_STOPPING = "{} stops after its current requests; a second Ctrl-C kills it"

#: Go's garbage collector lets the heap grow to five times its live size.
_GOGC = "400"


@dataclass(eq=False, repr=False)
class Terraform:
    """Terraform, or OpenTofu, in one stack's folder.

    A first Ctrl-C (or `cancel`) sends Terraform one SIGINT and waits for its clean stop; after a
    second one it is killed a few seconds later. The next command removes a killed Terraform's state
    lock; a lock that Terraform took unknowingly is removed at once. Another user's is an error.
    """

    folder: Path
    _: KW_ONLY
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    #: Returns variables by which it calls AWS; None for those to remove.
    credentials: Callable[[], Mapping[str, str | None]] = dict
    on_event: Callable[[Event], None] = lambda event: None
    on_wait: Callable[[str], None] = lambda text: None
    folder_limit_seconds: float = 600.0
    #: Releases the state's lock if Terraform could not, and returns whether it is free; called
    #: with the finished command.
    give_back: Callable[[Mapping[str, Any]], bool] = lambda ended: False
    break_lock: BreakLock | None = None
    #: Returns the state's lock, if Terraform doesn't name its holder.
    find_lock: Callable[[], LockInfo | None] = lambda: None
    before_init: Callable[[], None] = lambda: None
    state_lock_seconds: int = 10
    #: Held while Terraform works; acquire it around related commands.
    lock: FolderLock = field(init=False)
    _cancelled: threading.Event = field(default_factory=threading.Event, init=False)
    _cancelled_again: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        self.lock = FolderLock(
            self.folder,
            limit_seconds=self.folder_limit_seconds,
            on_wait=lambda busy: self.on_wait(f"waiting: {busy.problem}"),
        )

    # ---- the program and its environment ---------------------------------------------------------

    @cached_property
    def binary(self) -> TerraformBinary:
        """Terraform or OpenTofu, found at the first use."""
        return find_terraform(self.environ)

    @property
    def program(self) -> Program:
        """Which of the two it is."""
        return self.binary.program

    @property
    def provider_source(self) -> ProviderSource:
        """The source of the provider."""
        return cli_config_in_use(self.environ, self.program)

    def environment(self) -> dict[str, str]:
        """Return Terraform's environment."""
        kept = {k: v for k, v in self.environ.items() if not k.startswith(_DROPPED_VARIABLES)}
        kept.update(TF_IN_AUTOMATION="1", TF_INPUT="0", CHECKPOINT_DISABLE="1")
        # Terraform reads the provider's schema and ends: less garbage collection saves a third.
        kept.setdefault("GOGC", _GOGC)
        source = self.provider_source
        if source.kind == "mirror":
            kept[CLI_CONFIG_VARIABLE] = str(source.cli_config)
        elif source.kind == "registry":
            # The configured file is missing; Terraform would warn at each command.
            kept.pop(CLI_CONFIG_VARIABLE, None)
        if is_loopback_endpoint(kept):
            kept.pop("AWS_CA_BUNDLE", None)
        return environ_for_programs(changed(kept, self.credentials()))

    def command_line(self, verb: str, *arguments: str, **options: Any) -> list[str]:
        """Return a verb's command line."""
        return [*self.binary.command, *command_line(verb, arguments, options)]

    # ---- commands --------------------------------------------------------------------------------

    def configuration(self) -> dict[str, Any]:
        """Return the synthesised configuration."""
        return dict(json.loads((self.folder / CONFIGURATION).read_text(encoding="utf-8")))

    def init(self, *, again: bool = False) -> bool:
        """Initialise the folder if necessary: the provider of the lock file, and the backend;
        return whether it was necessary.

        Raises `TerraformError`, such as `ProviderUnavailable` and `BackendMissing`.
        """
        with self.lock:
            check_contents(self.folder)
            configuration = self.configuration()
            key = init_key(
                configuration,
                lock_file=self.folder / LOCK_FILE,
                cli_config=self.provider_source.cli_config,
                version=str(self.binary),
            )
            stamp = self.folder / DATA / STAMP
            if not again and self._has_packages() and read_object(stamp).get("key") == key:
                return False
            stamp.unlink(missing_ok=True)
            # Terraform downloads a state's providers too.
            self.before_init()
            self._stream("init", reconfigure=FLAG, lockfile="readonly")
            stamp.write_text(json.dumps({"key": key}), encoding="utf-8")
            return True

    def _has_packages(self) -> bool:
        """Return whether the folder still has the results of an earlier ``init``."""
        # <host>/<namespace>/<type>/<version>/<platform>: links into the mirror.
        packages = list((self.folder / ".terraform/providers").glob("*/*/*/*/*"))
        present = bool(packages) and all(package.exists() for package in packages)
        return present and (self.folder / DATA / BACKEND_RECORD).is_file()

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
        printed = self._capture("show", _path_of(plan), json=FLAG)
        try:
            return dict(json.loads(printed))
        except ValueError as error:
            raise TerraformError(
                f"{self.program.command} show printed no valid JSON",
                verb="show",
                folder=str(self.folder),
                given=printed[:200],
            ) from error

    def apply(self, plan: PlanFile | Path) -> Mapping[str, Any]:
        """Apply exactly a saved plan.

        Raises `StalePlan`, `TerraformError`.
        """
        with self.lock:
            return self._lock_state("apply", _path_of(plan), parallelism=_PARALLELISM).counts

    def destroy(self, *, refresh: bool = True) -> Mapping[str, Any]:
        """Destroy the entire stack, without a reviewed plan."""
        options: dict[str, Any] = {
            "destroy": FLAG,
            "auto_approve": FLAG,
            "parallelism": _PARALLELISM,
        }
        if not refresh:
            options["refresh"] = False
        with self.lock:
            return self._lock_state_or_init("apply", **options).counts

    # ---- the state's lock ------------------------------------------------------------------------

    def force_unlock(self, lock_id: str) -> None:
        """Remove a killed command's lock from the state."""
        self._capture("force-unlock", lock_id, force=FLAG)

    def _lock_state_or_init(self, verb: str, **options: Any) -> CommandOutput:
        """Run a command that locks the state; retry after initialising if necessary."""
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

    # ---- commands with changes -------------------------------------------------------------------

    def cancel(self) -> None:
        """Ask the running command, or the next one, to stop, from any thread; it raises
        `TerraformCancelled`. Another call kills it a few seconds later.
        """
        (self._cancelled_again if self._cancelled.is_set() else self._cancelled).set()

    def _stream(self, verb: str, *arguments: str, **options: Any) -> CommandOutput:
        """Run a command with event output, and return it. Needs the folder's lock."""
        output = CommandOutput(REQUEST_SECONDS)
        check_contents(self.folder)
        done = process.follow(
            self.command_line(verb, *arguments, json=FLAG, **options),
            cwd=self.folder,
            environ=self.environment(),
            on_line=lambda text: self._take_line(text, output),
            cancelled=self._cancelled,
            cancelled_again=self._cancelled_again,
            on_stopping=partial(self._note_stop, output),
            pass_fds=self.lock.descriptors,
            on_started=lambda pid: self.lock.note(f"{self.program.command} {verb}", pid),
            on_ended=self.lock.note_end,
            may_stop=output.between_requests,
        )
        if done.cancelled:
            self._cancelled.clear()
            self._cancelled_again.clear()
        if done.exit_code == 0:
            return output
        error = self._error(verb, done, output.diagnostics)
        ended = self.lock.ended if self._may_have_kept(verb, done, error) else None
        if ended and self.give_back(ended) and output.only_kept_lock:
            return output
        if done.cancelled:
            raise TerraformCancelled(
                f"{self.program.command} {verb} was cancelled and has stopped cleanly",
                verb=verb,
                folder=str(self.folder),
                exit_code_of_terraform=done.exit_code,
                diagnostics=[d for d in output.diagnostics if d.severity == "error"],
                advice="run the same command again: it continues where this one stopped",
            )
        raise error

    @staticmethod
    def _may_have_kept(verb: str, done: process.Completed, error: Exception) -> bool:
        """Return whether a failed command may have left its own lock, which would block the next
        one: S3 may miss objects of a young bucket.

        Terraform reports it only once the operation itself has begun: earlier, as with a stale
        plan, it drops that error (``localRun`` in
        https://github.com/hashicorp/terraform/blob/main/internal/backend/local/backend_local.go).
        """
        return verb != "init" and done.exit_code > 0 and not isinstance(error, StateLocked)

    def _note_stop(self, output: CommandOutput) -> None:
        output.is_stopping = True
        self.on_wait(_STOPPING.format(self.program.name))

    def _take_line(self, text: str, output: CommandOutput) -> None:
        event = parse_event(text)
        if event is not None:
            if output.is_stopping and event.type == "apply_errored":
                event = replace(event, type=STOPPED)
            output.take(event)
            self.on_event(event)

    # ---- commands with one output ----------------------------------------------------------------

    def _capture(self, verb: str, *arguments: str, **options: Any) -> str:
        """Run a command, and return its output."""
        line = self.command_line(verb, *arguments, **options)
        with self.lock:
            check_contents(self.folder)
            done = process.capture(line, cwd=self.folder, environ=self.environment())
        if done.exit_code:
            raise self._error(verb, done)
        return done.stdout

    def _error(
        self, verb: str, done: process.Completed, diagnostics: Sequence[Diagnostic] = ()
    ) -> TerraformError | AwsError:
        return error_of(
            program=self.program,
            verb=verb,
            folder=str(self.folder),
            exit_code=done.exit_code,
            diagnostics=diagnostics,
            stderr=done.stderr,
        )


def _path_of(plan: PlanFile | Path) -> str:
    return str((plan.path if isinstance(plan, PlanFile) else plan).absolute())


def init_key(
    configuration: Mapping[str, Any],
    *,
    lock_file: Path,
    cli_config: Path | None,
    version: str,
) -> str:
    """Return a checksum of everything that ``init`` depends on."""
    parts = {
        "terraform": configuration.get("terraform"),
        "module": configuration.get("module"),
        "lock": _content(lock_file),
        "version": version,
        "cli_config": _content(cli_config) if cli_config else "",
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def command_line(verb: str, arguments: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Return the words after the program's name, as python-terraform makes them.

    It has no wheel, so the client's own requirements leave it out; without it, the same words are
    made here.
    """
    try:
        from python_terraform import IsFlagged
        from python_terraform import Terraform as CommandLines
    except ModuleNotFoundError:
        return plain_command_line(verb, arguments, options)
    # The constructor reads a state from the working folder, which has none.
    builder = CommandLines(working_dir=os.devnull, terraform_bin_path="terraform")
    given = {name: IsFlagged if value is FLAG else value for name, value in options.items()}
    line: list[str] = builder.generate_cmd_string(verb, *arguments, **given)
    return line[1:]


def plain_command_line(
    verb: str, arguments: Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    """Return the same words, for texts, booleans and `FLAG`."""
    return [verb, *(_option(name, value) for name, value in options.items()), *arguments]


def _option(name: str, value: object) -> str:
    option = f"-{name.replace('_', '-')}"
    if value is FLAG:
        return option
    return f"{option}={str(value).lower() if isinstance(value, bool) else value}"
