"""The proof that a worker is on its instance: what is read of it, and what AWS's answers mean."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EndpointConnectionError

from terradask_host.agent.instance_proofs import ProofChecks, sign_proof
from terradask_host.rules.instance_proof import (
    AUDIENCE_HEADER,
    InstanceProof,
    Verdict,
    audience_of,
    session_arn,
)

AUDIENCE = audience_of("default", "etl", "r1")
ROLE = "arn:aws:iam::123456789012:role/company/terradask-worker"
SESSION = "arn:aws:sts::123456789012:assumed-role/terradask-worker/i-1"
URL = "https://sts.us-east-1.amazonaws.com"


def signed(audience: str = AUDIENCE, url: str = URL) -> InstanceProof:
    return sign_proof(url, "us-east-1", Credentials("AKID", "secret", "token"), audience)


class AnsweringSts:
    """An STS whose calls have these answers, in turn; each is an ARN or an error."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.headers: list[dict[str, str]] = []
        self._add: Callable[..., None] = lambda **_: None
        self.meta = self.events = self

    def register(self, event: str, add: Callable[..., None]) -> None:
        self._add = add

    def get_caller_identity(self) -> dict[str, str]:
        params: dict[str, Any] = {"headers": {"User-Agent": "us"}}
        self._add(params=params, event_name="before-call")
        self.headers.append(params["headers"])
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"Arn": answer}

    def unsigned_client(self, service: str) -> AnsweringSts:
        assert service == "sts"
        return self


def checks(sts: AnsweringSts) -> ProofChecks:
    aws: Any = sts
    return ProofChecks(aws, AUDIENCE, {"worker": (ROLE,)})


def refusal(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetCallerIdentity")


def test_the_proof_of_the_instance_is_taken_and_asked_once():
    sts, proof = AnsweringSts(SESSION), signed()
    found = checks(sts)
    document = proof.to_document()
    assert found.check("worker", "i-1", document) == (Verdict.PROVEN, "")
    # As a nanny sends it again, hours later.
    assert found.check("worker", "i-1", document) == (Verdict.PROVEN, "")
    assert sts.headers == [
        {
            "User-Agent": "us",
            "Authorization": proof.authorization,
            "X-Amz-Date": proof.date,
            "X-Amz-Security-Token": "token",
            AUDIENCE_HEADER: "default/etl/r1",
        }
    ]


@pytest.mark.parametrize(
    "arn",
    [
        SESSION.replace("i-1", "i-2"),
        SESSION.replace("terradask-worker", "admin"),
        SESSION.replace("123456789012", "210987654321"),
        "arn:aws:iam::123456789012:user/i-1",
    ],
)
def test_the_proof_of_another_is_refused_and_named(arn: str):
    verdict, why = checks(AnsweringSts(arn)).check("worker", "i-1", signed().to_document())
    assert verdict is Verdict.REFUSED
    assert why == f"its proof is of {arn}, not of {SESSION}"


def test_a_proof_that_was_good_for_one_instance_is_asked_again_for_another():
    found, document = checks(AnsweringSts(SESSION, SESSION)), signed().to_document()
    assert found.check("worker", "i-1", document)[0] is Verdict.PROVEN
    assert found.check("worker", "i-2", document)[0] is Verdict.REFUSED


def test_a_role_that_the_run_does_not_name_proves_nothing():
    found = checks(AnsweringSts(SESSION))
    assert found.check("scheduler", "i-1", signed().to_document())[0] is Verdict.REFUSED


def test_a_call_that_was_signed_for_something_else_is_never_sent():
    document = signed().to_document()
    plain = document["authorization"].replace(f";{AUDIENCE_HEADER.lower()}", "")
    sts = AnsweringSts()
    verdict, why = checks(sts).check("worker", "i-1", {**document, "authorization": plain})
    assert (verdict, why) == (Verdict.REFUSED, "its proof isn't signed for a cluster")
    assert plain != document["authorization"]
    assert not sts.headers


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (refusal("SignatureDoesNotMatch", 403), Verdict.REFUSED),
        (refusal("InvalidClientTokenId", 403), Verdict.REFUSED),
        (refusal("ExpiredToken", 403), Verdict.REFUSED),
        (refusal("Throttling", 400), Verdict.UNKNOWN),
        (refusal("TooManyRequests", 429), Verdict.UNKNOWN),
        (refusal("InternalFailure", 500), Verdict.UNKNOWN),
        (EndpointConnectionError(endpoint_url=URL), Verdict.UNKNOWN),
    ],
)
def test_an_error_says_whether_aws_has_answered(error: Exception, verdict: Verdict):
    assert checks(AnsweringSts(error)).check("worker", "i-1", signed().to_document())[0] is verdict


@pytest.mark.parametrize(
    "change",
    [
        {"token": "a\r\nX-Other: b"},
        {"token": "ä"},
        {"token": None},
        {"token": "t" * 9000},
        {"url": "https://example.com"},
    ],
)
def test_what_is_no_proof_is_not_sent(change: dict[str, Any]):
    assert InstanceProof.read({**signed().to_document(), **change}) is None
    assert InstanceProof.read(signed().to_document()) is not None


def test_the_session_of_an_instance_has_no_path():
    assert session_arn(ROLE, "i-1") == SESSION
    assert session_arn("arn:aws-cn:iam::123456789012:role/r", "i-1").startswith("arn:aws-cn:sts::")
    with pytest.raises(ValueError, match="not the ARN of a role"):
        session_arn("arn:aws:iam::123456789012:user/ada", "i-1")


def test_a_proof_is_of_its_time_and_place():
    first, other = signed(), signed("default/etl/r2")
    assert first.covers_audience()
    assert first.authorization != other.authorization
    assert signed(url="https://sts.eu-west-1.amazonaws.com").authorization != first.authorization
    now = datetime.datetime.now(datetime.UTC)
    at = datetime.datetime.strptime(first.date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    assert abs(now - at) < datetime.timedelta(minutes=1)
    assert not any("secret" in text for text in first.to_document().values())
