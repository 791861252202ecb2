"""Which failures pass by themselves: the call may be made again."""

from __future__ import annotations

from terradask._aws.translation import EXPIRED
from terradask.errors import AwsError

#: What AWS answers a client that asks too often, beside 5xx:
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html
_BUSY = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)


def is_transient(error: BaseException) -> bool:
    """Return whether a call failed for a reason that passes: a cut network, a busy AWS."""
    from botocore.exceptions import ClientError, HTTPClientError

    if isinstance(error, AwsError) and error.__cause__ is not None:
        return is_transient(error.__cause__)
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        # Credentials that have expired may be renewed meanwhile.
        return error.response["Error"].get("Code") in _BUSY | EXPIRED or status >= 500
    return isinstance(error, OSError | HTTPClientError) and not isinstance(error, InterruptedError)
