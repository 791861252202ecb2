"""``Redaction``: mask secrets, values of environment variables, user data, and if asked accounts'
numbers, by the rules of plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from terradask._common.masking import SENSITIVE, in_environment, looks_secret
from terradask._plans.policy.patterns import (
    Scrubber,
    is_secret_name,
    named_texts,
    points_to_secret,
)

#: Everything between the scheme and the host: it may be a token alone.
_IN_ADDRESS = re.compile(r"(?<=://)(?!git@)[^\s/@'\"<>]+(?=@)")
#: The signature of a link to S3, which opens it.
_SIGNATURE = re.compile(r"(?<=[?&]X-Amz-Signature=)[0-9a-fA-F]+")
#: The rest of a key that begins before the part of a log that was read.
_END_OF_KEY = re.compile(r"\A(?:(?!-----BEGIN )[\s\S])*?-----END [A-Z0-9 ]*PRIVATE KEY-----")
#: A terminal's colour, also after its control character was replaced: inside `token=…`, it would
#: hide the secret's name.
_COLOUR = re.compile(r"[\x1b\ufffd]\[[0-9;]*m")
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z.])[0-9]{12}(?![0-9A-Za-z.])")
#: Variables of the working folder, named as if they were passwords.
_FOLDERS = frozenset({"PWD", "OLDPWD"})
#: Shorter values of variables, such as `prod`, have other meanings in texts.
_SHORTEST = 8


class Redaction:
    """Masks documents and texts.

    Parameters
    ----------
    documents
        Documents whose secrets by name and values of environment variables are masked in all
        texts.
    environ
        Variables of this process: the values of those with a secret's name are masked.
    hide_accounts
        Whether to replace each account's number by one and the same word.
    """

    def __init__(
        self,
        documents: Iterable[Any],
        environ: Mapping[str, str],
        *,
        hide_accounts: bool = False,
    ) -> None:
        # Texts are none: a log that has `token: scheduler` would mask the scheduler everywhere.
        known = [each for each in documents if not isinstance(each, str)]
        values = [text for each in known for text in _variables(each, ())]
        values += [str(text) for _, text, is_named in named_texts(known) if is_named]
        names = [name for name in environ if is_secret_name(name) and name not in _FOLDERS]
        values += [environ[name] for name in names]
        self._scrubber = Scrubber({}, [each for each in values if len(each) >= _SHORTEST])
        self._accounts: dict[str, str] | None = {} if hide_accounts else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        text = _COLOUR.sub("", text)
        for pattern in (_END_OF_KEY, _SIGNATURE, _IN_ADDRESS):
            text = pattern.sub(SENSITIVE, text)
        text = self._scrubber.text(text)
        return text if self._accounts is None else _ACCOUNT.sub(self._account, text)

    def document(self, value: Any, path: tuple[object, ...] = ()) -> Any:
        """Return a JSON document without secrets."""
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): self._entry(inner, (*path, key))
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.document(each, path) for each in value]
        if isinstance(value, str):
            masked = self.text(value)
            # In base64, a part of it can't be masked.
            return SENSITIVE if masked == value and looks_secret(value) else masked
        return value

    def _entry(self, value: Any, path: tuple[object, ...]) -> Any:
        if _is_secret(value, path):
            return SENSITIVE
        return self.document(value, path)

    def _account(self, found: re.Match[str]) -> str:
        accounts = self._accounts if self._accounts is not None else {}
        return accounts.setdefault(found[0], f"account-{len(accounts) + 1}")


def _is_secret(value: Any, path: tuple[object, ...]) -> bool:
    if isinstance(value, str):
        named = is_secret_name(str(path[-1])) and not points_to_secret(value)
        return bool(value) and (named or in_environment(path, value))
    return isinstance(value, list) and bool(value) and is_secret_name(str(path[-1]))


def _variables(value: Any, path: tuple[object, ...]) -> Iterator[str]:
    """Yield the values of environment variables in a document."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _variables(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _variables(each, path)
    elif isinstance(value, str) and in_environment(path, value):
        yield value
