"""Run Terraform in one stack's folder: processes, and their events, documents, errors."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._terraform import process
from terradask._terraform.binary import TerraformBinary, find_terraform
from terradask._terraform.errors import error_of
from terradask._terraform.events import CommandOutput, Event, parse_event
from terradask._terraform.folder_lock import FolderLock
from terradask._terraform.provider_mirror import (
    CLI_CONFIG_VARIABLE,
    ProviderSource,
    cli_config_in_use,
)
from terradask.errors import AwsError, FolderBusy, TerraformCancelled, TerraformError
from terradask.errors.diagnostic import Diagnostic

#: Would change what our command lines mean, or where Terraform keeps things.
_DROPPED_VARIABLES = ("TF_WORKSPACE", "TF_DATA_DIR", "TF_CLI_ARGS", "TF_VAR_")


class _Flag:
    """Marks an option without a value."""


FLAG = _Flag()

#: The Go runtime lets the heap grow to five times what lives before it collects.
_GOGC = "400"


class TerraformCommands:
    """Runs any of Terraform's commands in one stack's folder, one at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        on_event: Callable[[Event], None],
        on_wait: Callable[[str], None],
        folder_limit_seconds: float,
        request_seconds: float,
    ) -> None:
        self.folder = folder
        self._given_environ = dict(environ)
        self._on_event = on_event
        self._on_wait = on_wait
        self._request_seconds = request_seconds
        self._cancelled = threading.Event()
        self._binary: TerraformBinary | None = None
        #: Held while Terraform works here; take it around several commands that belong together.
        self.lock = FolderLock(
            folder, limit_seconds=folder_limit_seconds, on_wait=self._report_busy
        )

    # ---- what runs -------------------------------------------------------------------------------

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
        kept = {
            k: v for k, v in self._given_environ.items() if not k.startswith(_DROPPED_VARIABLES)
        }
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
        return kept

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
        output = CommandOutput(self._request_seconds)
        done = process.follow(
            self.command_line(verb, *arguments, json=FLAG, **options),
            cwd=self.folder,
            environ=self.environ(),
            on_line=lambda text: self._take_line(text, output),
            cancelled=self._cancelled,
            on_stopping=self._report_stopping,
            pass_fds=self.lock.descriptors,
            on_started=lambda pid: self.lock.note(f"terraform {verb}", pid),
            on_ended=self.lock.note_end,
            may_stop=output.between_requests,
        )
        if done.cancelled:
            self._cancelled.clear()
        if done.exit_code == 0:
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
        raise self._error(verb, done, output.diagnostics)

    def _take_line(self, text: str, output: CommandOutput) -> None:
        event = parse_event(text)
        if event is not None:
            output.take(event)
            self._on_event(event)

    def _report_stopping(self) -> None:
        self._on_wait("Terraform is stopping after what it has begun; a second Ctrl-C kills it")

    def _report_busy(self, busy: FolderBusy) -> None:
        self._on_wait(f"waiting: {busy.problem}")

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
            done = process.capture(line, cwd=self.folder, environ=self.environ())
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
