"""Trust policies for roles of one GitHub repository's jobs, by OpenID Connect without a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import policy_document, statement

_ISSUER = "token.actions.githubusercontent.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
#: Names with a colon could match another subject, and those with * or ? many.
_ENVIRONMENT = re.compile(r"[^:*?$\s][^:*?$]{0,254}")


@dataclass(frozen=True)
class GitHubActions:
    """Jobs of a repository.

    Notes
    -----
    Subjects: https://docs.github.com/en/actions/reference/security/oidc. An environment's own
    protection rules decide who reaches it.
    """

    #: ``OWNER/REPOSITORY``.
    repository: str
    #: The deployment environment that the job must name. None: jobs of pull requests.
    environment: str | None = None

    @property
    def subject(self) -> str:
        """The claim ``sub`` of such a job's token."""
        kind = "pull_request" if self.environment is None else f"environment:{self.environment}"
        return f"repo:{self.repository}:{kind}"

    def policy(self, scope: CallerScope) -> dict[str, Any]:
        """Return the trust policy of a role for exactly these jobs."""
        return policy_document(
            [
                statement(
                    "Allow",
                    "sts:AssumeRoleWithWebIdentity",
                    sid="GitHubActions",
                    principal={"Federated": scope.where.iam_arn(f"oidc-provider/{_ISSUER}")},
                    condition={
                        "StringEquals": {
                            f"{_ISSUER}:aud": "sts.amazonaws.com",
                            f"{_ISSUER}:sub": self.subject,
                        }
                    },
                )
            ]
        )


def parse_trust(text: str, *, environment: str | None = None) -> GitHubActions:
    """Parse ``github:OWNER/REPOSITORY``.

    Raises `InvalidInput` for another form, or several possible repositories or environments.
    """
    kind, _, repository = text.partition(":")
    if kind != "github" or not _REPOSITORY.fullmatch(repository):
        raise InvalidInput(
            "this names no repository that a role can trust",
            given=text,
            allowed="github:OWNER/REPOSITORY, one repository without a pattern",
        )
    if environment is not None and not _ENVIRONMENT.fullmatch(environment):
        raise InvalidInput(
            "a GitHub environment of this name can't be in a subject",
            given=environment,
            allowed="no : * ? or $",
        )
    return GitHubActions(repository, environment)
