"""The call recorder names calls as AWS does."""

import pytest
from tests.call_counts import most_within

from terradask_simulator.aws.endpoint.calls import Call, CallRecorder, identify
from terradask_simulator.aws.iam.operation import read_operation


def signed(service, **environ):
    credential = f"AKIA/20261120/us-east-1/{service}/aws4_request"
    header = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"
    return {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "HTTP_AUTHORIZATION": header,
        **environ,
    }


FORM = "application/x-www-form-urlencoded; charset=utf-8"


def test_query_and_json_protocols():
    query = signed("autoscaling", REQUEST_METHOD="POST", CONTENT_TYPE=FORM)
    body = b"Action=SetDesiredCapacity&Version=2011-01-01&DesiredCapacity=3"
    assert identify(read_operation(query, body)) == Call(
        "autoscaling:SetDesiredCapacity", "AKIA", ""
    )
    target = signed(
        "secretsmanager", REQUEST_METHOD="POST", HTTP_X_AMZ_TARGET="secretsmanager.GetSecretValue"
    )
    assert identify(read_operation(target, b"{}")) == Call(
        "secretsmanager:GetSecretValue", "AKIA", ""
    )


@pytest.mark.parametrize(
    ("method", "path", "query", "action"),
    [
        ("GET", "/", "", "ListBuckets"),
        ("PUT", "/b", "", "CreateBucket"),
        ("GET", "/b", "list-type=2", "ListObjectsV2"),
        ("GET", "/b", "versioning", "GetBucketVersioning"),
        ("PUT", "/b", "publicAccessBlock=", "PutPublicAccessBlock"),
        ("GET", "/b", "versions", "ListObjectVersions"),
        ("POST", "/b", "delete", "DeleteObjects"),
        ("GET", "/b/a/key", "", "GetObject"),
        ("GET", "/b/a/key", "versionId=1", "GetObject"),
        ("HEAD", "/b/a/key", "", "HeadObject"),
        ("GET", "/b/a/key", "tagging", "GetObjectTagging"),
        ("POST", "/b/a/key", "uploads", "CreateMultipartUpload"),
        ("PUT", "/b/a/key", "partNumber=1&uploadId=x", "UploadPart"),
        ("POST", "/b/a/key", "uploadId=x", "CompleteMultipartUpload"),
    ],
)
def test_s3(method, path, query, action):
    call = identify(
        read_operation(signed("s3", REQUEST_METHOD=method, PATH_INFO=path, QUERY_STRING=query), b"")
    )
    assert call == Call(f"s3:{action}", "AKIA", path.strip("/"))


def test_a_list_of_keys_names_their_prefix():
    query = "list-type=2&prefix=clusters%2Fa%2F"
    call = identify(
        read_operation(signed("s3", REQUEST_METHOD="GET", PATH_INFO="/b", QUERY_STRING=query), b"")
    )
    assert call == Call("s3:ListObjectsV2", "AKIA", "b?prefix=clusters/a/")


def test_presigned_and_unsigned_calls():
    query = "X-Amz-Credential=AKIB%2F20261120%2Fus-east-1%2Fs3%2Faws4_request"
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/b/k", "QUERY_STRING": query}
    assert identify(read_operation(environ, b"")) == Call("s3:GetObject", "AKIB", "b/k")
    assert identify(read_operation({"REQUEST_METHOD": "GET", "PATH_INFO": "/b/k"}, b"")) == Call(
        "s3:GetObject", "", "b/k"
    )


@pytest.mark.parametrize("path", ["/moto-api/data.json", "/terradask-sim/info", "/favicon.ico"])
def test_questions_to_the_simulator_itself_are_no_calls(path):
    assert identify(read_operation({"REQUEST_METHOD": "GET", "PATH_INFO": path}, b"")) is None


def test_when_the_calls_of_a_role_came():
    recorder = CallRecorder()
    recorder.register_role("ASIA", "worker")
    recorder.record(Call("s3:GetObject", "ASIA", "b/k"))
    recorder.record(Call("ec2:DescribeInstances", "AKIA", ""))
    recorder.record(Call("s3:GetObject", "AKIA", "b/k"))
    first, second = recorder.log()
    assert (first["action"], second["action"], second["resource"]) == (
        "ec2:DescribeInstances",
        "s3:GetObject",
        "b/k",
    )
    assert first["seconds"] <= second["seconds"]
    assert [call["action"] for call in recorder.log("worker")] == ["s3:GetObject"]
    recorder.reset()
    assert recorder.log() == []


@pytest.mark.parametrize(("seconds", "most"), [(1.0, 2), (1.01, 3), (0.1, 1), (10, 4)])
def test_the_fullest_window(seconds, most):
    assert most_within([5.0, 0.0, 1.0, 0.5], seconds) == most
    assert most_within([], seconds) == 0


def test_counts_by_action_role_and_resource_since_the_mark():
    recorder = CallRecorder()
    recorder.record(Call("s3:GetObject", "AKIA", "b/before"))
    recorder.reset()
    recorder.register_role("ASIA", "worker")
    for _ in range(2):
        recorder.record(Call("s3:GetObject", "ASIA", "b/k"))
    recorder.record(Call("s3:GetObject", "AKIA", "b/k"))
    recorder.record(Call("ec2:DescribeInstances", "AKIA", ""))
    assert recorder.counts() == {"ec2:DescribeInstances": 1, "s3:GetObject": 3}
    assert recorder.by_role() == {
        "": {"ec2:DescribeInstances": 1, "s3:GetObject": 1},
        "worker": {"s3:GetObject": 2},
    }
    assert recorder.by_resource() == {
        "": {"b/k": {"s3:GetObject": 1}},
        "worker": {"b/k": {"s3:GetObject": 2}},
    }
