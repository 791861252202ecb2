"""Change what moto writes as an answer of S3: its errors, with status and fields, and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["changing", "install", "malformed", "refused"]


def install() -> None:
    """Replace how moto writes an error, whose status it takes from botocore's model."""
    from moto.s3.responses import S3Response

    @around(S3Response, "serialized")
    def serialized(write: Any, response: Any, result: Any) -> Any:
        worded = getattr(result.result, "embedded_refusal", None)
        return worded or write(response, result)


def refused(status: int, code: str, message: str, **fields: str) -> Exception:
    """Return an error to raise, with the fields that follow its code and message."""
    from moto.s3.exceptions import S3ClientError

    error: Any = S3ClientError(code, message)
    texts = {"Code": code, "Message": message, **fields}
    content = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in texts.items())
    error.embedded_refusal = status, {}, f"<Error>{content}</Error>"
    return error


def malformed() -> Exception:
    """Return the error for a document that isn't of its schema."""
    return refused(
        400,
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )


@contextmanager
def changing(response: Any, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Change the results of a request before they are written."""
    write = response.serialized

    def serialized(result: Any) -> Any:
        if isinstance(result.result, dict):
            change(result.result)
        return write(result)

    response.serialized = serialized
    try:
        yield
    finally:
        response.serialized = write
