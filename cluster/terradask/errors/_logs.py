"""Logs can't be read."""

from __future__ import annotations

from terradask.errors._aws import AccessDenied, AwsError


class LogsDenied(AccessDenied):
    """AWS refuses this caller to read the workspace's logs."""

    def __init__(self, action: str, problem: str) -> None:
        super().__init__(action, problem)
        self.allowed = "the rights of `terradask iam user` or `terradask iam ongoing`"
        self.advice = (
            f"ask an administrator to attach these policies, which allow {action}, or use another "
            "profile (AWS_PROFILE)"
        )


class LogsBusy(AwsError):
    """CloudWatch answers no more calls now: other callers in the account use up its limit.

    Parameters
    ----------
    log_group
        The log group that was read.
    problem
        AWS's message.
    """

    def __init__(self, log_group: str, problem: str) -> None:
        super().__init__(
            "CloudWatch has answered no call that reads logs for a minute",
            given=f"{log_group}: {problem}",
            allowed="5 calls of FilterLogEvents a second, of all callers in the account and region",
            advice="try again later, or ask for less: a host, --since, --tail",
        )
        self.log_group = log_group
