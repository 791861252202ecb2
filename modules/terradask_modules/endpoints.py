"""Interface endpoints: AWS's services at private addresses, for networks without a way to the
internet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from terradask_modules.aws import Construct, VpcEndpoint, at
from terradask_modules.names import resource_name


class InterfaceEndpoints(Construct):
    """One interface endpoint for each service, present in every private subnet.

    Resources created: an interface endpoint per service. Each costs by the hour and zone.

    Permissions needed: ``ec2:CreateVpcEndpoint``, ``DescribeVpcEndpoints``, ``ModifyVpcEndpoint``,
    ``DeleteVpcEndpoints``.

    Parameters
    ----------
    scope
        The stack.
    workspace
        Name of the workspace.
    region
        AWS region.
    vpc_id
        The VPC.
    subnet_ids
        Private subnets, one for each zone.
    security_group_id
        The group that lets hosts in on port 443.
    services
        Services such as ``logs``.
    tags
        Tags of every endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        region: str,
        vpc_id: str,
        subnet_ids: Sequence[str],
        security_group_id: str,
        services: Sequence[str],
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "endpoints")
        for service in sorted(services):
            endpoint = VpcEndpoint(
                self,
                service,
                vpc_id=vpc_id,
                service_name=f"com.amazonaws.{region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(subnet_ids),
                security_group_ids=[security_group_id],
                tags={**tags, "Name": resource_name(workspace, service)},
            )
            at(service, endpoint)
