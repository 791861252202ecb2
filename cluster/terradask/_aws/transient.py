"""Which failures pass by themselves: whoever has the time asks again."""

from __future__ import annotations

from terradask._aws.session import EXPIRED

#: What AWS answers who asks too often, beside 5xx:
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
#: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/CommonErrors.html
_BUSY = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException"})


def passes(error: BaseException) -> bool:
    """Tell whether a call to AWS or to a scheduler failed for a reason that passes: a network that is cut, an AWS that is busy."""
    from botocore.exceptions import ClientError, HTTPClientError

    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        # Credentials that have expired may be renewed meanwhile.
        return error.response["Error"].get("Code") in _BUSY | EXPIRED or status >= 500
    return isinstance(error, OSError | HTTPClientError) and not isinstance(error, InterruptedError)
