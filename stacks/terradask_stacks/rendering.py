"""Synthesise in another Python: its process gets the inputs as JSON, and answers with the stacks'
texts, or an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask_modules.errors import InvalidInput, SetupError, TerradaskError
from terradask_modules.programs import environ_for_programs
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.inputs import Inputs, inputs_in
from terradask_stacks.own_packages import own_folders
from terradask_stacks.synthesis_lock import OF_OWN_CODE

_PROGRAM = Path(__file__).with_name("render_process.py")

#: The errors that synthesis raises, by their names.
_ERRORS = {each.__name__: each for each in (InvalidInput, SettingsError, SetupError)}

#: The last lines of a failed process that an error quotes.
_QUOTED = 5


@dataclass(frozen=True)
class OtherProcess:
    """Synthesise in processes of another Python."""

    python: Path

    def versions(self) -> dict[str, str]:
        """Return the versions of the framework there. Raises `SetupError` if there is none."""
        found: dict[str, str] = self._ask([])["versions"]
        return found

    def unpack(self) -> subprocess.Popen[bytes]:
        """Begin to unpack the provider's bindings there, as the first synthesis would; return the
        process, which ends by itself. Raises `OSError`.
        """
        return subprocess.Popen(
            [str(self.python), "-I", str(_PROGRAM), "--unpack", *map(str, own_folders())],
            env=_environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def render(self, stacks: Sequence[Inputs], *, whose: str = "") -> dict[str, str]:
        """Return each stack's ``cdk.tf.json``, by its name, as `terradask_stacks.app.render` does.

        Raises `InvalidInput`, `SetupError`, `TerradaskError`.
        """
        answer = self._ask([inputs.as_document() for inputs in stacks], whose=whose)
        if "error" in answer:
            raise _error_in(answer) from RuntimeError(answer["trace"])
        texts: dict[str, str] = answer["texts"]
        return texts

    def _ask(self, stacks: Sequence[Mapping[str, Any]], whose: str = "") -> dict[str, Any]:
        request = {
            "present": OF_OWN_CODE,
            "packages": [str(folder) for folder in own_folders()],
            "stacks": stacks,
            "whose": whose,
        }
        # A killed process leaves its temporary files in here.
        with tempfile.TemporaryDirectory(
            prefix="terradask-synth-", ignore_cleanup_errors=True
        ) as made:
            folder = Path(made)
            (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
            code = self._run(folder)
            try:
                answer: dict[str, Any] = json.loads((folder / "answer.json").read_bytes())
            except (OSError, ValueError) as error:
                raise self._failed(code, folder / "output.txt") from error
        if answer.get("unfit"):
            raise SetupError(
                "this Python can't write Terraform's configuration",
                given=f"{self.python}: {', '.join(answer['unfit'])}",
                allowed="one with the extra deploy, or cdktn, of this version of terradask",
                advice="pip install 'terradask[deploy]' there; or terradask doctor --fix, if "
                "terradask made it",
            )
        return answer

    def _run(self, folder: Path) -> int:
        """Run the program in a session of its own, which a terminal's Ctrl-C doesn't reach."""
        command = [str(self.python), "-I", str(_PROGRAM), "request.json", "answer.json"]
        try:
            with (
                (folder / "output.txt").open("wb") as output,
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**_environ(), **_temporary_files_in(folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                ) as process,
            ):
                try:
                    return process.wait()
                except BaseException:
                    # Not its Node, which ends by itself, after the files that it unpacks.
                    process.kill()
                    process.wait()
                    raise
        except OSError as error:
            raise SetupError(
                f"the Python that writes Terraform's configuration can't be run: {error.strerror}",
                given=self.python,
                advice="terradask doctor --fix",
            ) from error

    def _failed(self, code: int, output: Path) -> TerradaskError:
        lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return TerradaskError(
            f"the process that writes Terraform's configuration ended with {code}",
            given="\n".join([str(self.python), *lines[-_QUOTED:]]),
            advice="terradask doctor checks it, and terradask doctor --fix makes its environment "
            "anew",
        )


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request, in the other process."""
    stacks = [inputs_in(document) for document in request["stacks"]]
    try:
        from terradask_stacks.app import render

        return {"texts": render(stacks, whose=request["whose"])}
    except TerradaskError as error:
        return {**error.as_dict(), "trace": traceback.format_exc()}


def _error_in(answer: Mapping[str, Any]) -> TerradaskError:
    """Return the error of another process."""
    fields = {name: answer[name] for name in ("problem", "given", "allowed", "advice")}
    kind = _ERRORS.get(answer["error"], TerradaskError)
    if kind is SettingsError:
        return SettingsError([Finding(**finding) for finding in answer["findings"]])
    return kind(fields.pop("problem"), **fields)


def _environ() -> dict[str, str]:
    """Return the process's variables, without AWS's: it calls nothing."""
    return environ_for_programs(
        {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    )


def _temporary_files_in(folder: Path) -> dict[str, str]:
    return dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
