"""Section ``[policy]``."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from terradask_stacks.settings.base import Number, Section
from terradask_stacks.validators.refusal import refuse

#: What waivers can name.
BUILT_IN_CHECKS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "jupyter", "cost", "waiver")


def _check(name: str) -> str:
    if name not in BUILT_IN_CHECKS:
        raise refuse(
            "there is no such check",
            allowed=", ".join(BUILT_IN_CHECKS),
        )
    return name


def _reason(text: str) -> str:
    if not text.strip():
        raise refuse(
            "a waiver without a reason", allowed="a sentence that says why the finding is accepted"
        )
    return text.strip()


def _day(value: Any) -> Any:
    # A bare number would be read as seconds since 1970.
    if isinstance(value, bool | int | float):
        raise refuse(f"{value!r} is not a day", allowed="a day such as 2027-01-01")
    return value


class Waiver(Section):
    """A finding that is accepted for a while."""

    check: Annotated[str, AfterValidator(_check)] = Field(
        min_length=1,
        description="The check: P1 to P8, jupyter or cost.",
    )
    address: str = Field(
        default="*",
        min_length=1,
        description="Terraform's address of the resource; * and ? match anything.",
    )
    stack: str = Field(
        default="*",
        min_length=1,
        description="The stack: network, or a cluster's name; * and ? match anything.",
    )
    reason: Annotated[str, AfterValidator(_reason)] = Field(
        description="Reason for the acceptance."
    )
    expires: Annotated[date, BeforeValidator(_day)] = Field(
        description="Last day of the waiver, such as 2027-01-01."
    )


class PolicySettings(Section):
    """Section ``[policy]``: what every plan is checked for before it is applied."""

    max_hourly_cost_usd: Number | None = Field(
        default=None,
        gt=0,
        description="Highest cost per hour of one stack at its maximum size, in US dollars.",
        examples=[25],
    )
    allow_jupyter: bool = Field(
        default=True,
        description="Whether clusters may run a notebook server (cluster.jupyter). false: "
        "such a plan is an error.",
    )
    waivers: list[Waiver] = Field(
        default=[],
        description="Findings that are accepted until a day, each with a reason.",
        examples=[
            [
                {
                    "check": "P3",
                    "address": "aws_launch_template.worker-*",
                    "reason": "until NAT is there",
                    "expires": date(2027, 1, 1),
                }
            ]
        ],
    )
