"""Records of what AWS answered: the format of the files in ``data/``, and of what ``terradask
doctor --live`` writes. `README.md` explains it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from terradask_simulator.switches import Switches

DATA = Path(__file__).with_name("data")

#: `$name` or `${name}`. Names are in lower case, so that `$Latest` of a launch template is none.
NAME = re.compile(r"\$(?:\{([a-z][a-z0-9_]*)\}|([a-z][a-z0-9_]*))")

#: A time of the replay: `$now`, or `$now_ms` in milliseconds, moved by seconds or milliseconds.
TIME = re.compile(r"\$now(_ms)?([+-]\d+)?")

#: What every case knows without having kept it.
KNOWN = frozenset({"account", "region", "now", "now_ms"})


class RecordError(Exception):
    """A file of records that can't be read, or a case that can't be asked."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Part):
    """Where cases come from, and under which licence their facts were published."""

    repository: str
    commit: str = ""
    licence: str = ""


class Call(_Part):
    """A request, and what AWS answered; without `status` it is set-up, and must succeed."""

    action: str = Field(pattern=r"^[a-z0-9-]+:[A-Z][A-Za-z0-9]+$")
    parameters: dict[str, Any] = {}
    region: str = ""
    #: `$name` of kept credentials that sign the request; by default those of the account's owner.
    caller: str = ""
    #: Sent though the client knows better: for what AWS answers to wrong parameters.
    unvalidated: bool = False
    keep: dict[str, str] = {}
    #: JMESPath into the answer: asked again until it is true, for half a minute.
    until: str = ""
    status: int | None = Field(default=None, ge=100, le=599)
    code: str = ""
    message: str | None = None
    answer: dict[str, Any] | None = None
    #: JMESPath into the answer -> what is there, of a record that has no more; null: nothing.
    values: dict[str, Any] = {}

    @model_validator(mode="after")
    def _compared(self) -> Call:
        if self.status is None and (
            self.code or self.message or self.values or self.answer is not None
        ):
            raise ValueError("a call whose answer is compared needs `status`")
        if (self.status or 0) >= 400 and not self.code:
            raise ValueError("a refused call needs `code`")
        if {"Code", "Message"} & set((self.answer or {}).get("Error", {})):
            raise ValueError("Error.Code and Error.Message stand in `code` and `message`")
        return self


class Case(_Part):
    """Calls in an order, and what AWS answered to them."""

    name: str
    source: str
    at: str
    evidence: Literal["recorded", "documented", "reported"]
    seen: str = ""
    #: The simulator's switches that are on meanwhile -> their arguments.
    switches: dict[str, dict[str, Any]] = {}
    calls: list[Call] = Field(min_length=1)
    #: Paths in answers that nothing reads: what differs there doesn't count.
    unread: list[str] = []
    #: Paths of lists in answers whose order AWS leaves open.
    unordered: list[str] = []
    #: Why the embedded AWS differs, and what that means for a user.
    differs: str = ""
    #: Why the case can't be replayed by itself.
    not_replayed: str = ""

    @model_validator(mode="after")
    def _names(self) -> Case:
        if self.differs and self.unread:
            raise ValueError("`differs` says it all: leave out `unread`")
        if not self.not_replayed and all(call.status is None for call in self.calls):
            raise ValueError("no call has a `status`: nothing would be compared")
        for name in self.switches:
            # A file may come from others: nothing else of the simulator is called.
            if name.startswith("_") or name not in vars(Switches):
                raise ValueError(f"switches: there is no switch {name}")
        known = set(KNOWN)
        for number, call in enumerate(self.calls):
            known |= set(names_in(call.parameters)) | set(call.keep)
            told = (call.answer, call.values, call.message, call.caller)
            for name in (name for one in told for name in names_in(one)):
                if name not in known:
                    raise ValueError(
                        f"calls[{number}] ({call.action}) names ${name}, which no call kept or gave"
                    )
        return self


class Records(_Part):
    """A file."""

    sources: dict[str, Source]
    cases: list[Case]

    @model_validator(mode="after")
    def _whole(self) -> Records:
        seen: set[str] = set()
        for case in self.cases:
            if case.source not in self.sources:
                raise ValueError(f"case {case.name!r}: source: {case.source!r} is not in `sources`")
            if case.name in seen:
                raise ValueError(f"case {case.name!r}: name: used twice")
            seen.add(case.name)
        return self


@dataclass(frozen=True)
class Difference:
    """Something in an answer that isn't as recorded."""

    call: int
    action: str
    path: str
    recorded: Any
    ours: Any

    def __str__(self) -> str:
        return (
            f"calls[{self.call}] {self.action} {self.path}: "
            f"recorded {_short(self.recorded)}, ours {_short(self.ours)}"
        )

    def below(self, path: str) -> bool:
        """Tell whether a path, such as ``Vpcs[].OwnerId``, covers this."""
        mine = re.sub(r"\[\d+\]", "[]", self.path)
        return mine == path or mine.startswith((f"{path}.", f"{path}["))


@dataclass(frozen=True)
class Absent:
    """What stands on the side that has nothing."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = Absent()


def read(path: Path) -> Records:
    """Read a file of records.

    Raises
    ------
    RecordError
        It isn't one; the text names the case and the field.
    """
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, json.JSONDecodeError) as error:
        raise RecordError(f"{path}: {error}") from error


def parse(document: Any, where: str) -> Records:
    """Read the content of a file of records; `where` names it in errors."""
    try:
        return Records.model_validate(document)
    except ValidationError as error:
        lines = [f"{where}: {_described(document, one)}" for one in error.errors()]
        raise RecordError("\n".join(lines)) from error


def files(pattern: str) -> list[Path]:
    """Return the files of ``data/`` with names of a pattern."""
    return sorted(DATA.glob(pattern))


def names_in(value: Any) -> Iterator[str]:
    """Yield the names in every string of a value."""
    if isinstance(value, str):
        if TIME.fullmatch(value):
            return
        for found in NAME.finditer(value):
            yield found[1] or found[2]
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from names_in(key)
            yield from names_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from names_in(one)


def _described(document: Any, error: Any) -> str:
    where = list(error["loc"])
    given = f" (given {_short(error['input'])})" if error["type"] != "value_error" else ""
    text = error["msg"].removeprefix("Value error, ")
    if where[:1] != ["cases"] or len(where) < 2:
        return f"{_path(where)}: {text}{given}".removeprefix(": ")
    case = document["cases"][where[1]]
    name = case.get("name", where[1]) if isinstance(case, dict) else where[1]
    field = _path(where[2:])
    return f"case {name!r}: {field}{': ' if field else ''}{text}{given}"


def _path(where: list[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(
        "."
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, Absent) else json.dumps(value, default=str)
    return f"{text!s:.300}"
