"""The proof that a worker runs on the instance whose name it has: a signed call.

The instance signs ``sts:GetCallerIdentity``, the scheduler's host sends it. Pure: no AWS, no Dask.

Vault and EKS prove instances and users the same way; as there, the signature covers a header with
the audience, so that a call signed for another purpose proves nothing here:
https://developer.hashicorp.com/vault/docs/auth/aws#iam-auth-method

AWS (documented, ec2-session-name): The session of a role that EC2 gives to an instance is named by
the instance's id.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

#: The header with the proof's audience: the run of a cluster.
AUDIENCE_HEADER = "X-Terradask-Run"

#: Key of the proof in a worker's registration.
PROOF_KEY = "terradask-instance-proof"

#: AWS (documented): STS gives session tokens no fixed length.
#: https://docs.aws.amazon.com/STS/latest/APIReference/API_Credentials.html
_MOST_CHARACTERS = 8_192

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[A-Z0-9]+/[0-9]{8}/(?P<region>[a-z0-9-]+)/sts/aws4_request, "
    r"SignedHeaders=(?P<signed_headers>[a-z0-9;-]+), Signature=[0-9a-f]{64}"
)
_ROLE = re.compile(r"arn:([a-z-]+):iam::([0-9]{12}):role/(?:.*/)?([^/]+)")


class Verdict(enum.Enum):
    """The result of a proof's check."""

    PROVEN = "proven"
    REFUSED = "refused"
    #: AWS didn't answer.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class InstanceProof:
    """The parts of the signed call that differ between calls; the receiver knows all others.

    Parameters
    ----------
    authorization, date, token
        The headers ``Authorization``, ``X-Amz-Date`` and ``X-Amz-Security-Token``. None of them is
        a key: with the token alone nothing can be signed.
    """

    authorization: str
    date: str
    token: str

    @classmethod
    def read(cls, document: object) -> Self | None:
        """Read a worker's proof; None if it is invalid."""
        if not isinstance(document, Mapping) or document.keys() != cls.__dataclass_fields__.keys():
            return None
        values = document.values()
        # A line break would add headers to the call.
        if not all(
            isinstance(each, str) and each.isascii() and each.isprintable() for each in values
        ):
            return None
        return None if sum(map(len, values)) > _MOST_CHARACTERS else cls(**document)

    def to_document(self) -> dict[str, Any]:
        """Return the document that `read` reads."""
        return asdict(self)

    def headers(self, audience: str) -> dict[str, str]:
        """Return the headers of the call."""
        return {
            "Authorization": self.authorization,
            "X-Amz-Date": self.date,
            "X-Amz-Security-Token": self.token,
            AUDIENCE_HEADER: audience,
        }

    def covers_audience(self) -> bool:
        """Return whether the signature covers the audience."""
        found = _AUTHORIZATION.fullmatch(self.authorization)
        return found is not None and AUDIENCE_HEADER.lower() in found["signed_headers"].split(";")


def audience_of(workspace: str, cluster: str, run_id: str) -> str:
    """Return the audience of one run's proofs."""
    return f"{workspace}/{cluster}/{run_id}"


def session_arn(role_arn: str, instance_id: str) -> str:
    """Return AWS's ARN of an instance with this role. Raises `ValueError` for an invalid ARN."""
    found = _ROLE.fullmatch(role_arn)
    if found is None:
        raise ValueError(f"not the ARN of a role: {role_arn!r}")
    partition, account, name = found.groups()
    return f"arn:{partition}:sts::{account}:assumed-role/{name}/{instance_id}"
