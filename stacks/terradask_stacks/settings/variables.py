"""The part of ``[cluster]`` that sets environment variables, also from secrets in AWS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_stacks.settings.base import Section
from terradask_stacks.validators.dask import check_environ
from terradask_stacks.validators.refusal import refuse

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Variables that processes read at their start, and those of temporary credentials.
_RESERVED = re.compile(r"(TERRADASK|DASK)_.*|AWS_CONTAINER_.*", re.IGNORECASE)
#: A secret, if need be with a key of its JSON; or a parameter.
#: AWS (documented): Names have up to 512 characters in Secrets Manager, and 1,011 in Parameter
#: Store with the ARN's prefix.
#: https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html,
#: https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-su-create.html
_REFERENCE = re.compile(
    r"arn:aws[a-z-]*:("
    r"secretsmanager:[a-z0-9-]+:\d{12}:secret:(?P<secret>[A-Za-z0-9/_+=.@-]{1,519})(:[^:]{1,128})?"
    r"|ssm:[a-z0-9-]+:\d{12}:parameter/[A-Za-z0-9_./-]{1,1010})",
    re.ASCII,
)
#: Names of clusters' own secrets, which hold their keys.
_OF_CLUSTERS = "terradask/"
#: In the ARN of a secret without a key of its JSON.
_COLONS = 6
_ALLOWED = (
    "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-AbCdEf, with :KEY for one value of its "
    "JSON, or arn:aws:ssm:REGION:ACCOUNT:parameter/NAME"
)


def _check_secrets(value: Any) -> dict[str, str]:
    """Return references by the name of their variable. A refused value may be a secret: no text
    shows it.
    """
    if not isinstance(value, Mapping):
        raise refuse(
            "secrets must be a table",
            allowed=f"names of environment variables, each with an ARN: {_ALLOWED}",
            advice='write secrets = { NAME = "arn:…" }',
            secret=True,
        )
    for number, (name, reference) in enumerate(value.items(), start=1):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            # It may be the value, in the name's place.
            raise refuse(
                f"the name of secret {number} is not that of an environment variable",
                allowed="letters, digits and _, not beginning with a digit",
            )
        if _RESERVED.fullmatch(name):
            raise refuse(
                f"{name} can't be a secret: processes read it at their start, or send_credentials "
                "sets it",
                allowed="names that don't begin with TERRADASK_, DASK_ or AWS_CONTAINER_",
            )
        check_reference(reference, name)
    return dict(value)


def check_login(value: Any) -> str:
    """Return the ARN of a secret with a username and a password; errors don't show the value."""
    arn = check_reference(value, "container_credentials")
    if ":secretsmanager:" not in arn or arn.count(":") > _COLONS:
        raise refuse(
            "container_credentials is not a whole secret of AWS Secrets Manager",
            allowed="arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-AbCdEf, whose text is "
            '{"username": "…", "password": "…"}',
            secret=True,
        )
    return arn


def check_reference(value: Any, name: str) -> str:
    """Return the ARN of a secret or a parameter; errors don't show the value."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise refuse(
            f"{name} is not the ARN of a secret (not shown: it may be the secret itself)",
            allowed=_ALLOWED,
            advice="keep the value in AWS Secrets Manager or Parameter Store, and write its ARN: "
            "aws secretsmanager describe-secret --secret-id NAME, or aws ssm get-parameter --name "
            "NAME",
            secret=True,
        )
    if (found["secret"] or "").startswith(_OF_CLUSTERS):
        raise refuse(
            f"{name} is a cluster's own secret, which holds its keys",
            allowed=f"secrets whose name doesn't begin with {_OF_CLUSTERS}",
        )
    return str(value)


class VariableSettings(Section):
    """Environment variables of a cluster's processes."""

    environ: Annotated[dict[str, str], AfterValidator(check_environ)] = Field(
        default={},
        description="Environment variables of scheduler and workers. Not for secrets: the "
        "workspace's bucket and plans have them.",
        examples=[{"OMP_NUM_THREADS": "1"}],
    )
    secrets: Annotated[dict[str, str], BeforeValidator(_check_secrets)] = Field(
        default={},
        description="Environment variables whose values hosts read with their role, as ARNs of "
        "AWS Secrets Manager (with :KEY for one value of its JSON) or of Parameter Store. The "
        "role needs network.task_rights for them.",
    )

    @property
    def references(self) -> Mapping[str, str]:
        """Setting -> ARN of the secret that hosts read for it."""
        return {f"secrets.{name}": arn for name, arn in sorted(self.secrets.items())}

    @model_validator(mode="after")
    def _each_name_once(self) -> VariableSettings:
        if twice := sorted(self.environ.keys() & self.secrets.keys()):
            raise refuse(
                f"cluster.environ and cluster.secrets both have {', '.join(twice)}",
                allowed="each name in one of them",
                advice="leave it out of environ",
            )
        return self
