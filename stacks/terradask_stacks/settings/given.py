"""Tables of section ``[network]`` for what exists already and terradask only uses."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from terradask_stacks.settings.base import Section
from terradask_stacks.validators.resources import (
    check_instance_profile,
    check_security_group_id,
    check_subnet_id,
)

SubnetId = Annotated[str, AfterValidator(check_subnet_id)]
SecurityGroupId = Annotated[str, AfterValidator(check_security_group_id)]
InstanceProfileName = Annotated[str, AfterValidator(check_instance_profile)]


class ZoneSubnets(Section):
    """A zone of ``network.subnets``: the given subnets of one availability zone; both may be the
    same.
    """

    scheduler: SubnetId = Field(description="Subnet in which schedulers are launched.")
    worker: SubnetId = Field(description="Subnet in which workers are launched.")


class SecurityGroups(Section):
    """The table ``network.security_groups``: the given security groups of hosts; both may be the
    same.
    """

    scheduler: SecurityGroupId = Field(
        description="Security group of schedulers: workers reach its ports 8786-8787."
    )
    worker: SecurityGroupId = Field(
        description="Security group of workers: schedulers and workers reach its TCP ports."
    )


class InstanceProfiles(Section):
    """The table ``network.instance_profiles``: the given instance profiles of hosts, each with its
    role.
    """

    scheduler: InstanceProfileName = Field(description="Name of the schedulers' instance profile.")
    worker: InstanceProfileName = Field(description="Name of the workers' instance profile.")
