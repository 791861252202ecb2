"""Errors for refused requests, in the format of each of AWS's protocols."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from html import escape

from terradask_simulator.aws.iam.evaluation import Decision, Request
from terradask_simulator.aws.iam.operation import Operation

__all__ = ["Refusal", "access_denied", "bad_signature", "unknown_key", "worded"]


@dataclass(frozen=True)
class Refusal:
    """An HTTP error response, with its code and message."""

    status: str
    content_type: str
    body: bytes
    code: str
    message: str
    headers: tuple[tuple[str, str], ...] = field(default=())


def access_denied(
    operation: Operation, request: Request, decision: Decision, refusal: str = ""
) -> Refusal:
    """Return the error for a request that policies don't allow."""
    where = (
        "" if request.resource == "*" else f" on resource: {_quoted(operation, request.resource)}"
    )
    sentence = (
        f"User: {request.principal} is not authorized to perform: {request.action}{where} "
        f"{decision.why(request.action)}"
    )
    if operation.protocol == "ec2":
        return worded(
            operation,
            "UnauthorizedOperation",
            refusal or f"You are not authorized to perform this operation. {sentence}",
        )
    code = "AccessDeniedException" if operation.protocol == "json" else "AccessDenied"
    return worded(operation, code, refusal or sentence)


def bad_signature(operation: Operation, message: str = "") -> Refusal:
    """Return the error for a request with an invalid signature."""
    if operation.protocol == "ec2":
        return unknown_key(operation)
    # AWS (clock-skew)
    message = message or (
        "The request signature we calculated does not match the signature you provided. Check your "
        "AWS Secret Access Key and signing method. Consult the service documentation for details."
    )
    code = "InvalidSignatureException" if operation.protocol == "json" else "SignatureDoesNotMatch"
    return worded(operation, code, message)


def unknown_key(operation: Operation) -> Refusal:
    """Return the error for a request that is signed with an unknown key."""
    if operation.service == "s3":
        if not operation.access_key:
            return worded(operation, "AccessDenied", "Access Denied")
        return worded(
            operation,
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
        )
    if not operation.access_key:
        return worded(
            operation, "MissingAuthenticationToken", "Request is missing Authentication Token"
        )
    if operation.protocol == "ec2":
        return worded(
            operation,
            "AuthFailure",
            "AWS was not able to validate the provided access credentials",
            status="401 Unauthorized",
        )
    code = "UnrecognizedClientException" if operation.protocol == "json" else "InvalidClientTokenId"
    return worded(operation, code, "The security token included in the request is invalid.")


def _quoted(operation: Operation, resource: str) -> str:
    return f'"{resource}"' if operation.service == "s3" else resource


def worded(operation: Operation, code: str, message: str, status: str = "403 Forbidden") -> Refusal:
    """Return an error in the format of the operation's protocol; JSON services answer 400 for any
    status.
    """
    request_id, text = str(uuid.uuid4()), escape(message, quote=False)
    headers: tuple[tuple[str, str], ...] = (("x-amzn-RequestId", request_id),)
    if operation.protocol == "json":
        body = json.dumps({"__type": code, "Message": message, "message": message})
        return Refusal(
            "400 Bad Request",
            "application/x-amz-json-1.1",
            body.encode(),
            code,
            message,
            (*headers, ("x-amzn-ErrorType", code)),
        )
    if operation.protocol == "ec2":
        inner = (
            f"<Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors>"
            f"<RequestID>{request_id}</RequestID>"
        )
        body = f"<Response>{inner}</Response>"
    elif operation.protocol == "query":
        error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{text}</Message></Error>"
        body = f"<ErrorResponse>{error}<RequestId>{request_id}</RequestId></ErrorResponse>"
    else:
        body = (
            f"<Error><Code>{code}</Code><Message>{text}</Message>"
            f"<RequestId>{request_id}</RequestId></Error>"
        )
    declared = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'
    content = b"" if operation.method == "HEAD" else declared.encode()
    return Refusal(status, "application/xml", content, code, message, headers)
