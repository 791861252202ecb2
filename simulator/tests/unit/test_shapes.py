"""The check of calls against botocore's models finds what is wrong with them."""

import json
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest

from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.shapes.check import ShapeCheck, problems_of_answer, problems_of_request
from terradask_simulator.aws.shapes.models import models_in, operation_of

_GROUP = {
    "AutoScalingGroupName": "workers",
    "MinSize": "0",
    "MaxSize": "3",
    "DesiredCapacity": "1",
    "DefaultCooldown": "300",
    "AvailabilityZones": ["us-east-1a"],
    "HealthCheckType": "EC2",
    "CreatedTime": "2026-11-27T00:00:00.000Z",
}


@dataclass(frozen=True)
class _Answer:
    body: bytes
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = ()


def _form(service, name, **fields):
    version = models_in("").of(service)[0].api_version
    body = urlencode({"Action": name, "Version": version, **fields}).encode()
    return Operation(
        service, name, "ec2" if service == "ec2" else "query", fields, "us-east-1", "key", body=body
    )


def _json(service, name, content):
    body = json.dumps(content).encode()
    return Operation(service, name, "json", content, "us-east-1", "key", body=body)


def _s3(method, path, query=None, headers=None, body=b""):
    return Operation(
        "s3", "", "rest", query or {}, "us-east-1", "key", method, path, headers or {}, body
    )


def _model(operation):
    found = operation_of(models_in("").of(operation.service)[0], operation)
    assert found is not None
    return found


def _in_request(operation):
    return [
        f"{path} {problem}" for path, problem in problems_of_request(_model(operation), operation)
    ]


def _in_answer(operation, answer):
    model = _model(operation)
    return [f"{path} {problem}" for path, problem in problems_of_answer(model, operation, answer)]


def _xml(name, content):
    return "".join(
        f"<{key}>{''.join(_xml('member', {'': one}) for one in value)}</{key}>"
        if isinstance(value, list)
        else _xml(key, value)
        if isinstance(value, dict)
        else f"<{key}>{value}</{key}>"
        if key
        else value
        for key, value in content.items()
    ).join((f"<{name}>", f"</{name}>"))


def _groups(**changes):
    group = _xml("member", {k: v for k, v in {**_GROUP, **changes}.items() if v is not None})
    inner = f"<AutoScalingGroups>{group}</AutoScalingGroups>"
    result = f"<DescribeAutoScalingGroupsResult>{inner}</DescribeAutoScalingGroupsResult>"
    body = f"<DescribeAutoScalingGroupsResponse>{result}</DescribeAutoScalingGroupsResponse>"
    return _Answer(body.encode())


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (_form("ec2", "DescribeVpcs", **{"Filter.1.Name": "a", "Filter.1.Value.1": "b"}), None),
        (_form("ec2", "DescribeVpcs", **{"Filters.1.Name": "a"}), ".Filters is not a member"),
        (_form("ec2", "DescribeVpcs", **{"Filter.1.Nam": "a"}), ".Filter[].Nam is not a member"),
        (_form("ec2", "DescribeVpcs", **{"Filter.2.Name": "a"}), ".Filter is numbered 2"),
        (_form("ec2", "DescribeVpcs", MaxResults="5000"), "is not from 5 to 1000"),
        (_form("ec2", "DescribeVpcs", DryRun="yes"), "'yes' is no boolean"),
        (_form("ec2", "DeleteVpc"), ".VpcId is required"),
        (
            _form("ec2", "CreateVpc", InstanceTenancy="shared"),
            "is none of dedicated, default",
        ),
        (_form("sts", "GetCallerIdentity", Name="x"), ".Name is not a member"),
        (
            _form("autoscaling", "SetDesiredCapacity", AutoScalingGroupName="g"),
            ".DesiredCapacity is required",
        ),
        (
            _form("autoscaling", "DescribeAutoScalingGroups", **{"AutoScalingGroupNames.1": "g"}),
            ".AutoScalingGroupNames.1 is written for member",
        ),
        (_json("secretsmanager", "GetSecretValue", {"SecretId": "a"}), None),
        (_json("secretsmanager", "GetSecretValue", {"SecretID": "a"}), ".SecretID is not a member"),
        (_json("secretsmanager", "GetSecretValue", {"SecretId": 1}), "is a int, and no string"),
        (_json("logs", "PutRetentionPolicy", {"logGroupName": "a b"}), "doesn't match"),
        (_s3("PUT", "/b/k", headers={"if-none-match": "*"}), None),
        (_s3("GET", "/b", {"list-type": "2", "prefixes": "x"}), "?prefixes is not a parameter"),
        (_s3("PUT", "/b/k", headers={"x-amz-tag": "a"}), "x-amz-tag is not a header"),
        (
            _s3(
                "PUT",
                "/b",
                {"versioning": ""},
                body=b"<VersioningConfiguration><Status>On</Status></VersioningConfiguration>",
            ),
            "VersioningConfiguration.Status 'On' is none of Enabled, Suspended",
        ),
    ],
)
def test_what_is_wrong_with_a_request_is_found(operation, problem):
    found = _in_request(operation)
    assert (found == []) if problem is None else any(problem in each for each in found)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"Colour": "blue"}, ".AutoScalingGroups[].Colour is not a member"),
        ({"HealthCheckType": None}, ".AutoScalingGroups[].HealthCheckType is required"),
        ({"MaxSize": "many"}, "'many' is no integer"),
        ({"CreatedTime": "yesterday"}, "is not a time of the format iso8601"),
        ({"CreatedTime": "2026-11-27T00:00:00+00:00"}, "is not a time of the format iso8601"),
        (
            {"Instances": ["<LifecycleState>Resting</LifecycleState>"]},
            ".AutoScalingGroups[].Instances[].LifecycleState 'Resting' is none of",
        ),
        ({"MinSize": {"a": "1"}}, "has members, and is a integer"),
    ],
)
def test_what_is_wrong_with_an_answer_is_found(changes, problem):
    found = _in_answer(_form("autoscaling", "DescribeAutoScalingGroups"), _groups(**changes))
    assert (found == []) if problem is None else any(problem in each for each in found)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"ARN": "arn:aws:secretsmanager:us-east-1:1:secret:a"}, None),
        ({"Arn": "arn"}, ".Arn is not a member"),
        ({"Name": None}, ".Name is a NoneType, and no string"),
        ({"CreatedDate": "2026-11-27T00:00:00Z"}, "is a str, and no timestamp"),
        ({"VersionStages": "AWSCURRENT"}, ".VersionStages is a str, and no list"),
    ],
)
def test_what_is_wrong_with_an_answer_of_json_is_found(content, problem):
    answer = _Answer(json.dumps(content).encode())
    found = _in_answer(_json("secretsmanager", "GetSecretValue", {"SecretId": "a"}), answer)
    assert (found == []) if problem is None else any(problem in each for each in found)


@pytest.mark.parametrize(
    ("code", "status", "problem"),
    [
        ("ResourceNotFoundException", "400 Bad Request", None),
        ("SecretIsNowhere", "400 Bad Request", "is none that the operation declares"),
        ("", "400 Bad Request", "error has no code"),
    ],
)
def test_errors_that_an_operation_does_not_declare_are_found(code, status, problem):
    answer = _Answer(json.dumps({"__type": code}).encode(), status)
    found = _in_answer(_json("secretsmanager", "GetSecretValue", {"SecretId": "a"}), answer)
    assert (found == []) if problem is None else any(problem in each for each in found)


def test_the_status_of_a_declared_error_is_checked():
    body = b"<ErrorResponse><Error><Code>NoSuchEntity</Code></Error></ErrorResponse>"
    operation = _form("iam", "GetRole", RoleName="a")
    assert _in_answer(operation, _Answer(body, "404 Not Found")) == []
    assert _in_answer(operation, _Answer(body, "400 Bad Request")) == [
        "error NoSuchEntity has the status 400 Bad Request, not 404"
    ]


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (_s3("GET", "/b"), "ListObjects"),
        (_s3("GET", "/b", {"list-type": "2"}), "ListObjectsV2"),
        (_s3("GET", "/b", {"versions": ""}), "ListObjectVersions"),
        (_s3("GET", "/b/k/l"), "GetObject"),
        (_s3("PUT", "/b/k", {"x-id": "PutObject"}), "PutObject"),
        (_s3("PUT", "/b/k", {"partNumber": "1", "uploadId": "u"}), "UploadPart"),
        (_s3("PUT", "/b/k", headers={"x-amz-copy-source": "a/b"}), "CopyObject"),
        (_s3("POST", "/b", {"delete": ""}), "DeleteObjects"),
        (_s3("PUT", "/b", {"lifecycle": ""}), "PutBucketLifecycleConfiguration"),
        (_s3("GET", "/"), "ListBuckets"),
    ],
)
def test_a_request_of_s3_is_the_operation_that_its_path_and_query_say(operation, name):
    assert _model(operation).name == name


def test_a_problem_is_written_once_and_one_with_a_reason_never(tmp_path):
    report = tmp_path / "problems"
    check = ShapeCheck(report, models_in(""))
    asked = _form("ec2", "DescribeVpcs", Colour="blue")
    none = _Answer(b"<DescribeVpcsResponse><requestId>1</requestId></DescribeVpcsResponse>")
    check.check(asked, none)
    check.check(asked, none)
    check.check(_form("ec2", "DescribeVpcs", Colour="red"), none)
    listed = _form("ec2", "DescribeInternetGateways")
    state = (
        b"<DescribeInternetGatewaysResponse><requestId>1</requestId><internetGatewaySet><item>"
        b"<attachmentSet><item><state>%s</state></item></attachmentSet></item></internetGatewaySet>"
        b"</DescribeInternetGatewaysResponse>"
    )
    check.check(listed, _Answer(state % b"available"))
    check.check(_form("ec2", "DescribeColours"), none)
    assert [json.loads(line)["call"] for line in report.read_text().splitlines()] == [
        "request ec2:DescribeVpcs",
        "ec2:DescribeColours",
    ]


def test_a_refused_request_is_its_callers_business(tmp_path):
    report = tmp_path / "problems"
    body = b"<Response><Errors><Error><Code>UnknownParameter</Code></Error></Errors></Response>"
    refused = _Answer(body, "400 Bad Request")
    ShapeCheck(report, models_in("")).check(_form("ec2", "DescribeVpcs", Colour="blue"), refused)
    assert not report.exists()
