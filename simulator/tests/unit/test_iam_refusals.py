"""A refusal is what AWS's SDKs take for one, in each protocol."""

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import create_parser

from terradask_simulator.aws.iam.documents import Statement
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import access_denied, unknown_key
from terradask_simulator.iam import Decision, Request

CALLER = "arn:aws:sts::123456789012:assumed-role/worker/i-1"
SERVICES = {
    "ec2": ("ec2", "ec2", "TerminateInstances"),
    "autoscaling": ("autoscaling", "query", "SetDesiredCapacity"),
    "iam": ("iam", "query", "CreateRole"),
    "secretsmanager": ("secretsmanager", "json", "GetSecretValue"),
    "logs": ("logs", "json", "PutLogEvents"),
    "s3": ("s3", "rest", "GetObject"),
}


def understood(service, refusal):
    """Return status, code and message as botocore reads them."""
    botocore_name, _, name = SERVICES[service]
    model = ServiceModel(Loader().load_service_model(botocore_name, "service-2"), botocore_name)
    shape = model.operation_model(name).output_shape
    status = int(refusal.status.split()[0])
    parsed = create_parser(model.metadata["protocol"]).parse(
        {"status_code": status, "headers": dict(refusal.headers), "body": refusal.body}, shape
    )
    return status, parsed["Error"]["Code"], parsed["Error"]["Message"]


def operation(service, method="POST", access_key="ASIA"):
    _, protocol, name = SERVICES[service]
    return Operation(
        service,
        "" if protocol == "rest" else name,
        protocol,
        {},
        "us-east-1",
        access_key,
        method=method,
    )


IMPLICIT = Decision(False, "identity-based policy")


def denied(service, resource="arn:aws:x:::y", decision=IMPLICIT, refusal=""):
    asked = operation(service)
    return access_denied(asked, Request(f"{service}:Act", resource, {}, CALLER), decision, refusal)


SENTENCE = (
    "User: {caller} is not authorized to perform: {service}:Act on resource: {resource} "
    "because no identity-based policy allows the {service}:Act action"
)


# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
@pytest.mark.parametrize(
    ("service", "status", "code"),
    [
        ("ec2", 403, "UnauthorizedOperation"),
        ("autoscaling", 403, "AccessDenied"),
        ("iam", 403, "AccessDenied"),
        ("secretsmanager", 400, "AccessDeniedException"),
        ("logs", 400, "AccessDeniedException"),
        ("s3", 403, "AccessDenied"),
    ],
)
def test_access_denied(service, status, code):
    found_status, found_code, message = understood(service, denied(service))
    assert (found_status, found_code) == (status, code)
    resource = '"arn:aws:x:::y"' if service == "s3" else "arn:aws:x:::y"
    sentence = SENTENCE.format(caller=CALLER, service=service, resource=resource)
    assert (
        message
        == ("You are not authorized to perform this operation. " if service == "ec2" else "")
        + sentence
    )


def test_an_explicit_deny_says_so_and_an_action_without_resources_names_none():
    decision = Decision(False, "permissions boundary", Statement("Deny", actions=("*",)))
    message = understood("autoscaling", denied("autoscaling", "*", decision))[2]
    assert message == (
        f"User: {CALLER} is not authorized to perform: autoscaling:Act with an explicit deny "
        "in a permissions boundary"
    )


def test_a_launch_template_has_a_sentence_of_its_own():
    refusal = denied("autoscaling", refusal="You are not authorized to use launch template: lt-1")
    assert understood("autoscaling", refusal)[1:] == (
        "AccessDenied",
        "You are not authorized to use launch template: lt-1",
    )


def test_what_stands_in_xml_is_escaped():
    assert "a<b&c" in understood("iam", denied("iam", "arn:aws:x:::a<b&c"))[2]


def test_a_head_request_gets_no_body():
    asked = operation("s3", method="HEAD")
    refusal = access_denied(
        asked, Request("s3:GetObject", "arn:aws:s3:::b/k", {}, CALLER), IMPLICIT
    )
    assert (refusal.status, refusal.body) == ("403 Forbidden", b"")


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
# https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html
@pytest.mark.parametrize(
    ("service", "status", "code"),
    [
        ("ec2", 401, "AuthFailure"),
        ("autoscaling", 403, "InvalidClientTokenId"),
        ("secretsmanager", 400, "UnrecognizedClientException"),
        ("s3", 403, "InvalidAccessKeyId"),
    ],
)
def test_a_key_that_nobody_knows(service, status, code):
    assert understood(service, unknown_key(operation(service)))[:2] == (status, code)


def test_nobodys_request():
    assert (
        understood("autoscaling", unknown_key(operation("autoscaling", access_key="")))[1]
        == "MissingAuthenticationToken"
    )
    assert understood("s3", unknown_key(operation("s3", access_key="")))[1] == "AccessDenied"
