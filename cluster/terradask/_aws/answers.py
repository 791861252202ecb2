"""Ignore expected AWS errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase


@contextmanager
def unless(*codes: str) -> Iterator[None]:
    """Suppress AWS errors with these codes, such as ``InvalidAMI*``."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if not any(fnmatchcase(error.response["Error"]["Code"], code) for code in codes):
            raise
