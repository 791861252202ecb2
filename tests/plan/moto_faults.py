"""Moto with the corrections that make a second plan as clean as on AWS; run as a program, it
serves.
"""

from __future__ import annotations

import sys
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.utils import generate_route_id
from moto.server import main

from terradask_simulator.aws.fidelity import (
    bucket_policies,
    delete_markers,
    image_disks,
    launch_templates,
    newer_regions,
    placement_groups,
    quotas,
    request_lookups,
    rule_descriptions,
)


def endpoint_routes() -> None:
    """Let a gateway endpoint be deleted whose tables have changed.

    moto gives the endpoint's route to the tables that it is made with, but takes it from those
    added later as well.
    """
    delete = EC2Backend.delete_vpc_endpoints

    def delete_vpc_endpoints(self: Any, vpce_ids: list[str] | None = None) -> None:
        for endpoint in (
            self.vpc_end_points[each] for each in vpce_ids or () if each in self.vpc_end_points
        ):
            endpoint.route_table_ids = [
                table
                for table in endpoint.route_table_ids or ()
                if generate_route_id(table, endpoint.destination_prefix_list_id)
                in self.route_tables[table]._routes
            ]
        delete(self, vpce_ids)

    EC2Backend.delete_vpc_endpoints = delete_vpc_endpoints


if __name__ == "__main__":
    for correction in (
        bucket_policies,
        delete_markers,
        image_disks,
        launch_templates,
        newer_regions,
        placement_groups,
        quotas,
        request_lookups,
        rule_descriptions,
    ):
        correction.install()
    endpoint_routes()
    main(sys.argv[1:])
