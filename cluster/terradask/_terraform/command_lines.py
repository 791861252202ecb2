"""Turn a verb, its arguments and options into Terraform's command line, with python-terraform.

python-terraform has no wheel, so the client's own requirements leave it out: without it, the same
lines are built here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

#: Marks an option without a value.
FLAG = object()


def command_line(verb: str, arguments: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Return the words after the program's name."""
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
