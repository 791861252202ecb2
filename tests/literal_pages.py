"""A page's blocks of code as one shell script, in order and as they are written, and a person at a
terminal who runs it.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_QUESTION = re.compile(rb"\[y/N\][^\n]*$")
#: One that has an answer in brackets, which Enter takes.
_DEFAULT = re.compile(rb"\[(?!y/N)[^\]\n]+\]: $")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each block of code: its language, "" for a shell's, and its text."""
    for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        yield language.replace("bash", ""), text


def snippets(page: Path) -> list[str]:
    """Return the blocks of Python."""
    return [text for language, text in blocks(page) if language == "python"]


def outputs(page: Path) -> list[str]:
    """Return the lines of blocks that show what a command prints."""
    return [
        line for language, text in blocks(page) if language == "text" for line in text.split("\n")
    ]


def script_of(
    page: Path, *, unusable: Mapping[str, str], ends_with: Mapping[str, int]
) -> tuple[str, set[str]]:
    """Return a script of what a reader would type and save, and which commands it leaves out.

    Parameters
    ----------
    page
        The page.
    unusable
        Commands that can't be run here, with the reason.
    ends_with
        Commands that end with another code than 0, as the page says.
    """
    lines, left_out = ["set -e -o pipefail"], set()
    for number, (language, text) in enumerate(blocks(page)):
        if language == "toml":
            lines += [f"cat > terradask.toml <<'END'\n{text}END"]
        elif language == "python":
            lines += [f"cat > step_{number}.py <<'END'\n{text}END", f"python step_{number}.py"]
        elif language != "text":
            for line in text.splitlines():
                if line in unusable:
                    left_out.add(line)
                else:
                    code = ends_with.get(line)
                    ends = line if code is None else f"{{ {line}\n}} || test $? = {code}"
                    lines += [f"echo {_quoted('$ ' + line)}", ends]
    return "\n".join(lines) + "\n", left_out


def run_as_a_person(
    script: str, *, folder: Path, environ: Mapping[str, str], limit_seconds: float
) -> tuple[int, str]:
    """Run a script in a terminal, with yes or Enter for each question; return its code and
    output.
    """
    path = folder / "typed.sh"
    path.write_text(script)
    parent, child = pty.openpty()
    with subprocess.Popen(
        ["bash", path.name],
        cwd=folder,
        env=environ,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    ) as process:
        os.close(child)
        output, end = b"", time.monotonic() + limit_seconds
        try:
            while time.monotonic() < end:
                if not select.select([parent], [], [], 1)[0]:
                    if process.poll() is not None:
                        break
                    continue
                try:
                    more = os.read(parent, 65_536)
                except OSError:
                    # Linux says so when the last process has closed the terminal.
                    break
                output += more
                if _QUESTION.search(output):
                    os.write(parent, b"y\n")
                    output += b" (yes)\n"
                elif _DEFAULT.search(output):
                    os.write(parent, b"\n")
                    output += b" (Enter)\n"
            else:
                process.kill()
            code = process.wait(30)
        finally:
            os.close(parent)
    return code, output.decode(errors="replace")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
