"""Creates this instance's proof and checks those of workers' instances; the format is in
`terradask_host.rules.instance_proof`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from terradask_host.agent.aws import Aws, error_code, is_aws_error, passes
from terradask_host.rules.instance_proof import (
    AUDIENCE_HEADER,
    InstanceProof,
    Verdict,
    session_arn,
)

#: The call's body and its type in botocore's form, which the signature covers.
_BODY = "Action=GetCallerIdentity&Version=2011-06-15"
_CONTENT_TYPE = "application/x-www-form-urlencoded; charset=utf-8"

_EVENT = "before-call.sts.GetCallerIdentity"


def sign_proof(endpoint_url: str, region: str, credentials: Any, audience: str) -> InstanceProof:
    """Sign the call with an instance's botocore credentials, without sending it."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    headers = {"Content-Type": _CONTENT_TYPE, AUDIENCE_HEADER: audience}
    request = AWSRequest("POST", f"{endpoint_url.rstrip('/')}/", headers=headers, data=_BODY)
    SigV4Auth(credentials, "sts", region).add_auth(request)
    return InstanceProof(
        authorization=request.headers["Authorization"],
        date=request.headers["X-Amz-Date"],
        token=request.headers["X-Amz-Security-Token"],
    )


def prove(aws: Aws, audience: str) -> dict[str, Any]:
    """Return a proof of this instance. It is valid for some minutes: create it when needed."""
    endpoint_url = aws.client("sts").meta.endpoint_url
    return sign_proof(endpoint_url, aws.region, aws.credentials(), audience).to_document()


class ProofChecks:
    """Checks proofs with AWS, several at a time; safe to use from several threads.

    A valid proof stays valid, for a worker that its nanny restarts. `audience` is what proofs must
    be signed for, `roles` maps the hosts' roles, such as ``worker``, to ARNs of allowed IAM roles.

    Permission: none.

    AWS (documented, sts-who-am-i): STS GetCallerIdentity needs no permission, and a policy that
    denies it has no effect.
    https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """

    def __init__(self, aws: Aws, audience: str, roles: Mapping[str, Sequence[str]]) -> None:
        self._aws = aws
        self._audience = audience
        self._roles = roles
        self._known: set[tuple[str, str, InstanceProof]] = set()
        self._call = threading.local()
        self._lock = threading.Lock()
        self._client: Any = None

    def check(self, role: str, instance_id: str, document: object) -> tuple[Verdict, str]:
        """Return the verdict on an instance's proof, and the reason if it isn't accepted."""
        proof = InstanceProof.read(document)
        if proof is None:
            return Verdict.REFUSED, "it brought no proof of its instance"
        if (role, instance_id, proof) in self._known:
            return Verdict.PROVEN, ""
        if not proof.covers_audience():
            return Verdict.REFUSED, "its proof isn't signed for a cluster"
        try:
            caller = self._caller(proof)
        except Exception as error:
            if not is_aws_error(error):
                raise
            return _verdict_of(error)
        allowed = [session_arn(arn, instance_id) for arn in self._roles.get(role, ())]
        if caller not in allowed:
            return Verdict.REFUSED, f"its proof is of {caller}, not of {' or '.join(allowed)}"
        self._known.add((role, instance_id, proof))
        return Verdict.PROVEN, ""

    def _caller(self, proof: InstanceProof) -> str:
        """Send the call to AWS's own address, never the worker's; return the caller."""
        self._call.headers = proof.headers(self._audience)
        arn: str = self._sts().get_caller_identity()["Arn"]
        return arn

    def _sts(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._aws.unsigned_client("sts")
                self._client.meta.events.register(_EVENT, self._add_headers)
            return self._client

    def _add_headers(self, params: dict[str, Any], **_: Any) -> None:
        params["headers"].update(self._call.headers)


def _verdict_of(error: Exception) -> tuple[Verdict, str]:
    """Return the verdict that an error of AWS means."""
    if passes(error):
        return Verdict.UNKNOWN, f"AWS doesn't answer: {error}"
    return Verdict.REFUSED, f"AWS refuses its proof: {error_code(error)}"
