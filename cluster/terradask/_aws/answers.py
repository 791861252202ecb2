"""Ignore expected AWS errors, and raise those inside of successful answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any


@contextmanager
def unless(*codes: str) -> Iterator[None]:
    """Suppress AWS errors with these codes, such as ``InvalidAMI*``."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if not any(fnmatchcase(error.response["Error"]["Code"], code) for code in codes):
            raise


def raise_first(errors: Iterable[Mapping[str, Any]], call: str) -> None:
    """Raise the first error of a call that answered with HTTP 200 and did a part.

    AWS (documented): DeleteObjects, DeleteVpcEndpoints, DeleteFlowLogs and
    BatchDeleteScheduledAction list what they didn't delete, each with an error of its own.
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteVpcEndpoints.html
    """
    from botocore.exceptions import ClientError

    for error in errors:
        text = {"Code": str(error.get("Code")), "Message": str(error.get("Message", ""))}
        response: Any = {"Error": text, "ResponseMetadata": {"HTTPStatusCode": 200}}
        raise ClientError(response, call)
