"""Run Terraform in one stack's folder: processes, and their events, documents, errors."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._terraform import process
from terradask._terraform.binary import TerraformBinary, find_terraform
from terradask._terraform.errors import error_of
from terradask._terraform.events import CommandOutput, Event, parse_event
from terradask._terraform.folder_contents import check_contents
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.provider_mirror import (
    CLI_CONFIG_VARIABLE,
    ProviderSource,
    cli_config_in_use,
)
from terradask.errors import AwsError, StateLocked, TerraformCancelled, TerraformError
from terradask.errors.diagnostic import Diagnostic
from terradask_modules.programs import environ_for_programs

#: Would change what our command lines mean, or where Terraform keeps things.
_DROPPED_VARIABLES = ("TF_WORKSPACE", "TF_DATA_DIR", "TF_CLI_ARGS", "TF_VAR_")


#: Marks an option without a value.
FLAG = object()

#: Longest time that a request to create something takes to be answered, usually.
REQUEST_SECONDS = 1.5

_STOPPING = "Terraform is stopping after what it has begun; a second Ctrl-C kills it"

#: The Go runtime lets the heap grow to five times what lives before it collects.
_GOGC = "400"


@dataclass(eq=False, repr=False)
class TerraformCommands:
    """Runs any of Terraform's commands in one stack's folder, one at a time."""

    folder: Path
    _: KW_ONLY
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    on_event: Callable[[Event], None] = lambda event: None
    on_wait: Callable[[str], None] = lambda text: None
    folder_limit_seconds: float = 600.0
    #: Gives the state's lock back where Terraform could not, and returns whether it is free; called
    #: with the command that has ended.
    give_back: Callable[[Mapping[str, Any]], bool] = lambda ended: False
    #: Held while Terraform works here; take it around several commands that belong together.
    lock: FolderLock = field(init=False)
    _cancelled: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        self.lock = FolderLock(
            self.folder,
            limit_seconds=self.folder_limit_seconds,
            on_wait=lambda busy: self.on_wait(f"waiting: {busy.problem}"),
        )

    # ---- what runs -------------------------------------------------------------------------------

    @cached_property
    def binary(self) -> TerraformBinary:
        """The Terraform that runs; found at the first use."""
        return find_terraform(self.environ)

    @property
    def provider_source(self) -> ProviderSource:
        """Where Terraform gets the provider from."""
        return cli_config_in_use(self.environ)

    def environment(self) -> dict[str, str]:
        """Return the environment that Terraform gets."""
        kept = {k: v for k, v in self.environ.items() if not k.startswith(_DROPPED_VARIABLES)}
        kept.update(TF_IN_AUTOMATION="1", TF_INPUT="0", CHECKPOINT_DISABLE="1")
        # Terraform reads the provider's schema and ends: collecting later spares a third.
        kept.setdefault("GOGC", _GOGC)
        source = self.provider_source
        if source.kind == "mirror":
            kept[CLI_CONFIG_VARIABLE] = str(source.cli_config)
        elif source.kind == "registry":
            # What it names is missing; Terraform would warn on each command.
            kept.pop(CLI_CONFIG_VARIABLE, None)
        if is_loopback_endpoint(kept):
            kept.pop("AWS_CA_BUNDLE", None)
        return environ_for_programs(kept)

    def command_line(self, verb: str, *arguments: str, **options: Any) -> list[str]:
        """Return the command line for a verb, as python-terraform builds it."""
        from python_terraform import IsFlagged
        from python_terraform import Terraform as CommandLines

        # Its constructor reads a state from the working folder: there is none in this one.
        builder = CommandLines(working_dir=os.devnull, terraform_bin_path="terraform")
        given = {name: IsFlagged if value is FLAG else value for name, value in options.items()}
        line: list[str] = builder.generate_cmd_string(verb, *arguments, **given)
        return [*self.binary.command, *line[1:]]

    # ---- commands that change something ----------------------------------------------------------

    def cancel(self) -> None:
        """Ask the running command, from any thread, to stop; it raises `TerraformCancelled`."""
        self._cancelled.set()

    def _stream(self, verb: str, *arguments: str, **options: Any) -> CommandOutput:
        """Run a command that prints events, and return its output. Needs the folder's lock."""
        output = CommandOutput(REQUEST_SECONDS)
        check_contents(self.folder)
        done = process.follow(
            self.command_line(verb, *arguments, json=FLAG, **options),
            cwd=self.folder,
            environ=self.environment(),
            on_line=lambda text: self._take_line(text, output),
            cancelled=self._cancelled,
            on_stopping=partial(self.on_wait, _STOPPING),
            pass_fds=self.lock.descriptors,
            on_started=lambda pid: self.lock.note(f"terraform {verb}", pid),
            on_ended=self.lock.note_end,
            may_stop=output.between_requests,
        )
        if done.cancelled:
            self._cancelled.clear()
        if done.exit_code == 0:
            return output
        error = self._error(verb, done, output.diagnostics)
        ended = self.lock.ended if self._may_have_kept(verb, done, error) else None
        if ended and self.give_back(ended) and output.only_kept_lock:
            return output
        if done.cancelled:
            raise TerraformCancelled(
                f"terraform {verb} was cancelled and has stopped cleanly",
                verb=verb,
                folder=str(self.folder),
                exit_code_of_terraform=done.exit_code,
                diagnostics=[d for d in output.diagnostics if d.severity == "error"],
                advice="run the same command again: it continues where this one stopped",
            )
        raise error

    @staticmethod
    def _may_have_kept(verb: str, done: process.Completed, error: Exception) -> bool:
        """Return whether a command that failed may have left its own lock, which the next one would
        find in its way: S3 may miss objects of a young bucket.

        Terraform says so only where the operation itself has begun: before, as with a stale plan,
        it drops that error (``localRun`` in
        https://github.com/hashicorp/terraform/blob/main/internal/backend/local/backend_local.go).
        """
        return verb != "init" and done.exit_code > 0 and not isinstance(error, StateLocked)

    def _take_line(self, text: str, output: CommandOutput) -> None:
        event = parse_event(text)
        if event is not None:
            output.take(event)
            self.on_event(event)

    # ---- commands that print one text ------------------------------------------------------------

    def _read(self, verb: str, *arguments: str, **options: Any) -> Any:
        """Run a command that prints one JSON document, and return it; empty if none is printed."""
        printed = self._capture(verb, *arguments, **options)
        if not printed.strip():
            return {}
        try:
            return json.loads(printed)
        except ValueError as error:
            raise TerraformError(
                f"terraform {verb} printed no JSON",
                verb=verb,
                folder=str(self.folder),
                given=printed[:200],
            ) from error

    def _capture(self, verb: str, *arguments: str, **options: Any) -> str:
        """Run a command, and return what it printed."""
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
            verb=verb,
            folder=str(self.folder),
            exit_code=done.exit_code,
            diagnostics=diagnostics,
            stderr=done.stderr,
        )
