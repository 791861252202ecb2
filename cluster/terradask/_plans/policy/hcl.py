"""Read the literals of Terraform's language: objects, lists and strings inside ``jsonencode``.

Other expressions, such as references and calls, stay text: ``${aws_vpc.this.id}``.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

_ENCODED = re.compile(r"\$\{jsonencode\((.*)\)\}", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?=\s*[,}\])])")
_WORDS = {"true": True, "false": False, "null": None}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class NotLiteral(ValueError):
    """A text that isn't ``jsonencode`` of literals."""


# Several checks read the same documents, without changing them.
@functools.lru_cache(maxsize=8)
def encoded(text: str) -> Any:
    """Return the value in ``${jsonencode(…)}`` or JSON, ``concat`` joined. Raises `NotLiteral`."""
    found = _ENCODED.fullmatch(text)
    if found is None:
        try:
            return json.loads(text)
        except ValueError as error:
            raise NotLiteral(text[:20]) from error
    reader = _Reader(found[1] + ")")
    value = reader.value()
    if reader.rest() != ")":
        raise NotLiteral(reader.rest()[:20])
    return value


class _Reader:
    """Read one value after another."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def rest(self) -> str:
        """Return the unread remainder."""
        return self._text[self._at :].strip()

    def value(self) -> Any:
        """Read a literal, or an expression as text."""
        self._skip()
        match self._peek():
            case "{":
                return dict(self._items("}", self._pair))
            case "[":
                return self._items("]", self.value)
            case '"':
                return self._string()
        number = _NUMBER.match(self._text, self._at)
        if number:
            self._at = number.end()
            return json.loads(number[0])
        if self._text.startswith("concat(", self._at):
            self._at += len("concat")
            parts = self._items(")", self.value)
            return [item for part in parts for item in (part if isinstance(part, list) else [part])]
        return self._expression()

    def _pair(self) -> tuple[str, Any]:
        self._skip()
        key = self._string()
        self._take("=")
        return key, self.value()

    def _items(self, end: str, read: Any) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        self._skip()
        while self._peek() != end:
            found.append(read())
            self._skip()
            if self._peek() != end:
                self._take(",")
                self._skip()
        self._at += 1
        return found

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise NotLiteral(self._text[self._at : self._at + 20])
        self._at = found.end()
        quoted = found[0]
        return str(json.loads(quoted, strict=False)) if "\\" in quoted else quoted[1:-1]

    def _expression(self) -> Any:
        """Read up to the comma or bracket that ends the expression."""
        start = self._at
        open_brackets: list[str] = []
        while self._at < len(self._text):
            letter = self._peek()
            if letter == '"':
                self._string()
                continue
            if not open_brackets and letter in ",)]}":
                break
            if letter in _CLOSING:
                open_brackets.append(_CLOSING[letter])
            elif open_brackets and letter == open_brackets[-1]:
                open_brackets.pop()
            self._at += 1
        text = self._text[start : self._at].strip()
        if not text:
            raise NotLiteral("nothing")
        return _WORDS.get(text, f"${{{text}}}")

    def _take(self, letter: str) -> None:
        self._skip()
        if self._peek() != letter:
            raise NotLiteral(self._text[self._at : self._at + 20])
        self._at += 1

    def _skip(self) -> None:
        while self._peek().isspace():
            self._at += 1

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise NotLiteral("the end")
        return self._text[self._at]
