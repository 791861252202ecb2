"""Interface endpoints: AWS's services at private addresses, for networks without a way to the
internet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from terradask_modules.aws import Construct, VpcEndpoint, at
from terradask_modules.names import resource_name


@dataclass(frozen=True)
class Endpoint:
    """AWS's side of an endpoint, and where it is to be present."""

    #: Such as ``com.amazonaws.us-east-1.logs``.
    service_name: str
    #: Private subnets, one for each zone that has the service.
    subnet_ids: Sequence[str]


class InterfaceEndpoints(Construct):
    """One interface endpoint for each service, present in the private subnet of each zone that has
    it: hosts in other zones use it from there.

    Resources created: an interface endpoint per service. Each costs by the hour and zone.

    Parameters
    ----------
    workspace
        Name of the workspace.
    vpc_id
        The VPC.
    security_group_id
        The group that lets hosts in on port 443.
    services
        Services such as ``logs``, with AWS's side of each.
    tags
        Tags of every endpoint.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        vpc_id: str,
        security_group_id: str,
        services: Mapping[str, Endpoint],
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "endpoints")
        for service, there in sorted(services.items()):
            endpoint = VpcEndpoint(
                self,
                service,
                vpc_id=vpc_id,
                service_name=there.service_name,
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(there.subnet_ids),
                security_group_ids=[security_group_id],
                tags={**tags, "Name": resource_name(workspace, service)},
            )
            at(service, endpoint)
