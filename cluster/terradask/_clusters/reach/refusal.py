"""Who refuses a call of AWS, from AWS's code and text. AWS (denied-texts)

AWS (recorded): Some services refuse in texts of their own. tests/unit/data/aws_refusals.json
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from terradask._aws.denied import first, refused_action, refused_resource, refuser

#: Refuser -> its words.
REFUSERS: Mapping[str, str] = {
    "own_rule": "our security group",
    "their_rule": "their firewall, or a route",
    "some_rule": "a security group, ours or theirs, or a route",
    "closed_port": "nothing listens there",
    "no_route": "no route",
    "name": "its name isn't known here",
    "name_server": "no name server answers",
    "tls": "its TLS certificate",
    "proxy": "the proxy",
    "role": "our role",
    "boundary": "a permissions boundary",
    "session": "a session policy",
    "organization": "a policy of the organization",
    "endpoint": "a VPC endpoint's policy",
    "their_policy": "their policy",
    "role_or_policy": "our role, or their policy",
    "trust": "the role's trust policy",
    "key": "a KMS key",
    "lake_formation": "Lake Formation",
    "missing": "it isn't there",
    "credentials": "the credentials",
    "busy": "AWS limits the rate",
    "unknown": "an error",
}

#: Services' own texts of a key that refuses.
_KEY_TEXTS = ("access to kms is not allowed", "refers to a customer master key")

#: AWS's and botocore's codes, without dots and in lower case -> who refuses.
_CODES = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (
            "expiredtoken|invalidclienttokenid|unrecognizedclient|invalidaccesskeyid|credential"
            "|signaturedoesnotmatch|invalidtoken|tokenrefreshrequired",
            "credentials",
        ),
        ("accessdenied|unauthorized|notauthorized|authorizationerror|forbidden|^403$", "denied"),
        ("nosuch|notfound|nonexistent|doesnotexist|^404$", "missing"),
        ("throttl|slowdown|toomanyrequests|requestlimitexceeded|provisionedthroughput", "busy"),
        ("connecttimeout|readtimeout|endpointconnection|connectionclosed", "some_rule"),
        ("sslerror", "tls"),
    )
)
_POLICY = re.compile(r"policy(?: ARN)?: (arn:\S+)$")

#: Errors of those who may: an empty object, a check alone, and a key that the table doesn't have.
_ALLOWED_WITH = {
    "s3:GetObject": ("InvalidRange",),
    "kms:GenerateDataKey": ("DryRunOperationException", "DryRunOperation"),
    "dynamodb:GetItem": ("ValidationException",),
}


@dataclass(frozen=True)
class Refusal:
    """One refused call.

    Parameters
    ----------
    by
        The refuser: a key of `REFUSERS`.
    action
        The action that is refused: not always that of the call.
    resource
        The ARN that AWS names.
    is_explicit
        Whether a policy denies it, and not merely doesn't allow it.
    policy
        The ARN of the policy that refuses, if AWS names it.
    side
        Whose part is missing at a key: "ours", "theirs", or None if AWS's text leaves it open.
    """

    by: str
    action: str
    resource: str | None = None
    is_explicit: bool = False
    policy: str | None = None
    side: str | None = None
    text: str = ""


def read_refusal(call: str, code: str | None, message: str = "") -> Refusal | None:
    """Return who refuses a call, from its error's code and message; None if it was allowed."""
    if code is None or code in _ALLOWED_WITH.get(call, ()):
        return None
    plain, text = code.lower().replace(".", ""), message.lower()
    action, resource = refused_action(message) or call, refused_resource(message)
    refusal = Refusal(_by_code(plain, text), action, resource, text=message or code)
    if refusal.by != "denied":
        return refusal
    if call == "s3:GetObject" and action == "s3:ListBucket":
        # AWS (s3-403-or-404)
        return Refusal("missing", action, resource, text=message)
    by = refuser(message) or "role_or_policy"
    is_explicit = "explicit deny" in text
    policy = first(_POLICY, message)
    if action.startswith("kms:") or any(phrase in text for phrase in _KEY_TEXTS):
        if not action.startswith("kms:"):
            action = "kms:Decrypt"
        side = {"role": "ours", "their_policy": "theirs"}.get(by)
        if by in ("role", "their_policy", "role_or_policy"):
            return Refusal("key", action, resource, is_explicit, policy, side, message)
    return Refusal(by, action, resource, is_explicit, policy, text=message)


def _by_code(code: str, text: str) -> str:
    """Return the refuser by the code, "denied" where the text has more."""
    if "insufficient lake formation" in text:
        return "lake_formation"
    if any(phrase in text for phrase in _KEY_TEXTS):
        return "denied"
    return next((by for pattern, by in _CODES if pattern.search(code)), "unknown")
