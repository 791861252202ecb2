"""Differences from botocore's models that are right, or that stay, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

__all__ = ["KNOWN", "Known", "is_known"]


_COMMON_ERRORS = (
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "Throttling",
    "ThrottlingException",
    "UnrecognizedClientException",
    "ValidationError",
    "ValidationException",
)


@dataclass(frozen=True)
class Known:
    """A difference: its call, as a shell's pattern, its path, as a regular expression, and why it
    is none, or stays.
    """

    call: str
    path: str
    why: str


KNOWN = (
    Known(
        "answer *",
        f"error ({'|'.join(_COMMON_ERRORS)})",
        "All operations of AWS share these. "
        "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html",
    ),
    Known(
        "answer s3:*",
        "error .*",
        "S3's model declares few codes; all operations share one list. "
        "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
    ),
    Known(
        "answer ec2:DescribeInternetGateways",
        r".*attachmentSet\[\]\.state",
        "For an internet gateway the state is `available`, as its description states. "
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InternetGatewayAttachment.html",
    ),
    Known(
        "answer ec2:*VpcEndpoint*",
        r".*\.state",
        "AWS writes the state in small letters: cloud-custodian's record "
        "tests/data/placebo/test_endpoint_policy_filter.",
    ),
    Known(
        "answer ec2:*Instances",
        r".*\.platform",
        "For Windows the value is `windows`, as its description states. "
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html",
    ),
    Known(
        "answer ec2:DescribeNetworkInterfaces",
        r".*\.interfaceType",
        "For a NAT gateway's interface AWS answers `nat_gateway`: cloud-custodian's record "
        "tests/data/placebo/test_eip_used_by.",
    ),
    Known(
        "answer autoscaling:DescribeScalingActivities",
        r".*\.StatusMessage",
        "AWS's own texts are longer than 255 characters, such as "
        "https://github.com/kubernetes/autoscaler/issues/1402",
    ),
    Known(
        "answer ec2:DescribeInstanceTypes",
        r".*\.processorInfo\.supportedFeatures\[\]",
        "AWS returns `metal-compatibility` too: "
        "https://github.com/getmoto/moto/blob/master/moto/ec2/resources/instance_types.json.gz, "
        "which is its answer.",
    ),
    Known(
        "answer ssm:*",
        r"\.Invalid(Parameters|Labels)",
        "AWS sends the empty list too: tests/records/data/ssm.json.",
    ),
    Known(
        "answer iam:SimulatePrincipalPolicy",
        r".*\.MatchedStatements\[\]\.SourcePolicyType",
        "AWS sends `IAM Policy`, which isn't among them: tests/records/data/iam.json.",
    ),
    Known(
        "answer sts:AssumeRole",
        "error InvalidParameterValue",
        "AWS refuses tags of sessions so: tests/records/data/sts.json.",
    ),
    Known(
        "request s3:*",
        "x-amz-checksum-mode",
        "AWS's SDK for C++, which pyarrow has, writes `enabled`.",
    ),
    Known(
        "answer ec2:DescribeTags",
        r".*\.resourceType",
        "moto has `vpc-elastic-ip` and `nat-gateway` in place of AWS's `elastic-ip` and "
        "`natgateway`. Only lists of all tags show them, and nothing reads them there.",
    ),
    Known(
        "answer s3:CopyObject",
        "x-amz-tagging-count",
        "moto sends the number of the copy's tags here too; nothing reads it.",
    ),
    Known(
        "answer dynamodb:*Table",
        r".*\.NumberOfDecreasesToday",
        "A new table's number is 0, below the model's least. "
        "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateTable.html",
    ),
    Known(
        "* ec2:*",
        r".*[iI]nstanceType(\[\])?",
        "AWS adds types of instances every week, and users may name them before any model does.",
    ),
)


def is_known(call: str, path: str) -> bool:
    """Return whether a difference is a known one."""
    return any(fnmatchcase(call, one.call) and re.fullmatch(one.path, path) for one in KNOWN)
