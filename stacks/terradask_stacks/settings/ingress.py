"""Who may reach schedulers from outside: rules of the network, or of one cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from terradask_modules.ingress import parse_ports
from terradask_stacks.settings.base import Section
from terradask_stacks.validators.addresses import check_ingress_cidr, check_ports, is_anywhere
from terradask_stacks.validators.refusal import refuse

#: AWS (documented): A security group's rule has a description of up to 255 of these characters.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpRange.html
RULE_DESCRIPTION = r"^[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{1,255}$"


class IngressRule(Section):
    """A rule of ``ingress``: addresses and ports from which clients reach schedulers of a
    workspace, or of a cluster.
    """

    ports: list[Annotated[int | str, BeforeValidator(check_ports)]] = Field(
        default=["8786-8787"],
        min_length=1,
        description="Ports or ranges of ports, such as 8786 or '8786-8787'.",
    )
    cidr: Annotated[str, AfterValidator(check_ingress_cidr)] = Field(
        description="Addresses that clients come from, such as 203.0.113.7/32. The whole internet "
        "needs network.allow_ingress_from_anywhere."
    )
    description: str = Field(
        default="clients of Dask",
        pattern=RULE_DESCRIPTION,
        description="Purpose of the rule; AWS shows it.",
    )

    @property
    def is_anywhere(self) -> bool:
        """Whether it lets the whole internet in."""
        return is_anywhere(self.cidr)

    @property
    def port_ranges(self) -> list[tuple[int, int]]:
        """The ports as pairs of first and last."""
        return list(map(parse_ports, self.ports))


def _rules_differ(rules: list[IngressRule]) -> list[IngressRule]:
    pairs = [
        f"{first}-{last} from {rule.cidr}" for rule in rules for first, last in rule.port_ranges
    ]
    twice = sorted({pair for pair in pairs if pairs.count(pair) > 1})
    if twice:
        raise refuse(
            f"{', '.join(twice)} given twice, which AWS refuses", allowed="each ports and cidr once"
        )
    return rules


Ingress = Annotated[list[IngressRule], AfterValidator(_rules_differ)]
