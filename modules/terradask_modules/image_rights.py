"""Rights to pull container images of Amazon ECR, and its repositories."""

from __future__ import annotations

import re
from collections.abc import Sequence

from terradask_modules.iam import Statement, allow, one_or_many
from terradask_modules.partitions import partition_of

#: AWS (documented): An ECR repository is at <account>.dkr.ecr.<region>.amazonaws.com/<name>.
#: https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html
REPOSITORY = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z]{2,4}(?:-[a-z]+)+-[0-9])"
    r"\.amazonaws\.com(?:\.cn)?/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
)

#: AWS (documented): Pulling from ECR takes BatchGetImage and GetDownloadUrlForLayer on the
#: repository, and GetAuthorizationToken, which has no resource.
#: https://docs.aws.amazon.com/AmazonECR/latest/userguide/security_iam_id-based-policy-examples.html
PULL_ACTIONS = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
LOGIN_ACTION = "ecr:GetAuthorizationToken"


def repository_arn(repository: str) -> str:
    """Return the ARN of a repository in an image's name."""
    found = REPOSITORY.fullmatch(repository)
    assert found is not None, repository
    region = found["region"]
    return f"arn:{partition_of(region)}:ecr:{region}:{found['account']}:repository/{found['name']}"


def pull_statements(repositories: Sequence[str]) -> list[Statement]:
    """Return the right to pull images of only these repositories."""
    if not repositories:
        return []
    arns = sorted(map(repository_arn, repositories))
    regions = sorted({arn.split(":")[3] for arn in arns})
    return [
        allow("PullImages", list(PULL_ACTIONS), one_or_many(arns)),
        # A password opens what the role may read.
        allow(
            "LogInToRegistry",
            LOGIN_ACTION,
            "*",
            {"StringEquals": {"aws:RequestedRegion": one_or_many(regions)}},
        ),
    ]
