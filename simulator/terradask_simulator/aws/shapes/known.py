"""Differences from botocore's models that are right, or that stay, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

__all__ = ["KNOWN", "Known", "is_known"]


@dataclass(frozen=True)
class Known:
    """A difference: patterns of its call and its path, and why it is none, or stays."""

    call: str
    path: str
    why: str


KNOWN = (
    Known(
        "answer s3:*",
        "error *",
        "S3's model declares few codes; all operations share one list. "
        "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
    ),
    Known(
        "answer ec2:DescribeInternetGateways",
        ".internetGatewaySet[].attachmentSet[].state",
        "For an internet gateway the state is `available`, which the member's own text says. "
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InternetGatewayAttachment.html",
    ),
    Known(
        "answer ec2:*VpcEndpoint*",
        ".*.state",
        "AWS sends the state in small letters: recorded by cloud-custodian "
        "(tests/data/placebo/test_vpc_endpoint_*), and Terraform's provider waits for these.",
    ),
)


def is_known(call: str, path: str) -> bool:
    """Return whether a difference is a known one."""
    return any(fnmatchcase(call, one.call) and _fits(path, one.path) for one in KNOWN)


def _fits(path: str, pattern: str) -> bool:
    return fnmatchcase(path.replace("[]", ""), pattern.replace("[]", ""))
