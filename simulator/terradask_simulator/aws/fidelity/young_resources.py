"""New EC2 resources that a call can't find by their id yet, if switched on.

AWS (documented): A resource may not be visible to the calls that follow its creation at once.
https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html

AWS (documented): EC2 has a code of its own for each kind of resource that isn't found.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
Here are those for which Terraform's provider repeats its calls after a creation. Calls by filters
find every resource. Instances have a switch of their own.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from terradask_simulator.aws.iam.operation import Operation, texts
from terradask_simulator.aws.iam.refusals import Refusal, worded
from terradask_simulator.aws.switchboard import Setting

__all__ = ["HIDING", "check_resources", "note_resource"]

#: The longest time that new resources can't be found.
HIDING = Setting(seconds=0.0, seed=0)


@dataclass(frozen=True)
class _Kind:
    """Calls that create a kind of resource and that name it, and EC2's error for an unknown id."""

    #: Of the answer, and of the call's parameters with a capital.
    field: str
    calls: tuple[str, ...]
    code: str
    message: str


_KINDS = {
    "CreateVpc": _Kind(
        "vpcId", ("DescribeVpcs",), "InvalidVpcID.NotFound", "The vpc ID '{}' does not exist"
    ),
    "CreateSubnet": _Kind(
        "subnetId",
        ("DescribeSubnets",),
        "InvalidSubnetID.NotFound",
        "The subnet ID '{}' does not exist",
    ),
    "CreateSecurityGroup": _Kind(
        "groupId",
        ("DescribeSecurityGroups",),
        "InvalidGroup.NotFound",
        "The security group '{}' does not exist",
    ),
    "CreateRouteTable": _Kind(
        "routeTableId",
        ("DescribeRouteTables", "AssociateRouteTable"),
        "InvalidRouteTableID.NotFound",
        "The routeTable ID '{}' does not exist",
    ),
    "CreateInternetGateway": _Kind(
        "internetGatewayId",
        ("DescribeInternetGateways", "AttachInternetGateway"),
        "InvalidInternetGatewayID.NotFound",
        "The internetGateway ID '{}' does not exist",
    ),
    "CreateVpcEndpoint": _Kind(
        "vpcEndpointId",
        ("DescribeVpcEndpoints",),
        "InvalidVpcEndpointId.NotFound",
        "The Vpc Endpoint Id '{}' does not exist",
    ),
    "CreateLaunchTemplate": _Kind(
        "launchTemplateId",
        ("DescribeLaunchTemplates",),
        "InvalidLaunchTemplateId.NotFound",
        "The specified launch template, with template ID {}, does not exist.",
    ),
}
_BY_CALL = {name: kind for kind in _KINDS.values() for name in kind.calls}

_FOUND_AT: dict[str, float] = {}


def check_resources(operation: Operation) -> Refusal | None:
    """Return the error for a call that names a resource that is too new, or None."""
    kind = _BY_CALL.get(operation.name) if HIDING.seconds and operation.service == "ec2" else None
    if kind is None:
        return None
    for name in texts(operation.parameters, kind.field[0].upper() + kind.field[1:]):
        if _FOUND_AT.get(name, 0.0) > time.monotonic():
            return worded(operation, kind.code, kind.message.format(name), "400 Bad Request")
    return None


def note_resource(operation: Operation, status: str, body: bytes) -> None:
    """Draw how long a resource that was just created stays hidden."""
    kind = _KINDS.get(operation.name) if HIDING.seconds and operation.service == "ec2" else None
    if kind is None or not status.startswith("2"):
        return
    made = re.search(rf"<{kind.field}>([^<]+)<", body.decode())
    if made is not None:
        _FOUND_AT[made[1]] = time.monotonic() + HIDING.draws.uniform(0.0, HIDING.seconds)
