"""Section ``[limits]``: how much may run at once, and cost in a month."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from terradask_stacks.settings.base import Number, Section, Whole
from terradask_stacks.validators.refusal import matching, refuse
from terradask_stacks.validators.tags import check_tags


def _tag_key(key: str) -> str:
    check_tags({key: ""})
    return key


def _team(name: str) -> str:
    check_tags({"team": name})
    if not name:
        raise refuse("a team without a name", allowed="a value of the tag limits.team_tag")
    return name


#: AWS (documented): GetCallerIdentity shows a role's session, and never the role.
#: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
_owner = matching(
    r"arn:aws[a-z-]*:(iam|sts)::[0-9]{12}:(?!role/)[\w+=,.@/-]+",
    "the ARN of a caller",
    "an ARN as `terradask cost --by owner --json` shows it, such as "
    "arn:aws:iam::123456789012:user/ada or "
    "arn:aws:sts::123456789012:assumed-role/Data/ada",
)
_Usd = Annotated[Number, Field(ge=0, allow_inf_nan=False)]


class LimitSettings(Section):
    """The most that may run at once, and cost in a month; a value that is left out limits
    nothing.
    """

    hosts: Whole | None = Field(
        default=None,
        ge=0,
        description="Most hosts at once, those of schedulers included.",
    )
    vcpus: Whole | None = Field(default=None, ge=0, description="Most vCPUs of these hosts.")
    gpus: Whole | None = Field(default=None, ge=0, description="Most GPUs of these hosts.")
    hourly_usd: _Usd | None = Field(
        default=None, description="Highest price of these hosts per hour, in US dollars."
    )
    monthly_usd: _Usd | None = Field(
        default=None,
        description="Cost of hosts in a calendar month (UTC), in US dollars, after which no host "
        "is added.",
    )


class LimitsSettings(Section):
    """Section ``[limits]``: in force as applied with the network, for all of its users."""

    team_tag: Annotated[str, AfterValidator(_tag_key)] = Field(
        default="team", description="Key of the clusters' tag that names their team."
    )
    workspace: LimitSettings | None = Field(
        default=None,
        description="Limits of all clusters together.",
        examples=[{"hosts": 200, "monthly_usd": 5000}],
    )
    each_owner: LimitSettings | None = Field(
        default=None,
        description="Limits of each owner's clusters together: the caller that started them.",
        examples=[{"vcpus": 128, "gpus": 0}],
    )
    each_team: LimitSettings | None = Field(
        default=None,
        description="Limits of each team's clusters together. Those without the tag count as one "
        "team.",
        examples=[{"hourly_usd": 25}],
    )
    owners: dict[Annotated[str, AfterValidator(_owner)], LimitSettings] = Field(
        default={},
        description="Limits of single owners, by ARN, above those of each owner.",
        examples=[{"arn:aws:iam::123456789012:user/ada": {"gpus": 8}}],
    )
    teams: dict[Annotated[str, AfterValidator(_team)], LimitSettings] = Field(
        default={},
        description="Limits of single teams, by the tag's value, above those of each team.",
        examples=[{"research": {"gpus": 16}}],
    )

    @property
    def document(self) -> dict[str, Any]:
        """The limits as a document; empty if nothing is limited."""
        found = self.model_dump(exclude_none=True)
        limited = {
            name: {key: value for key, value in found.get(name, {}).items() if value != {}}
            for name in ("workspace", "each_owner", "each_team", "owners", "teams")
        }
        limited = {name: value for name, value in limited.items() if value}
        return {"team_tag": self.team_tag, **limited} if limited else {}
