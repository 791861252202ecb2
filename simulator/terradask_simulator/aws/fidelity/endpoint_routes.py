"""A gateway endpoint can be deleted whose route tables have changed.

moto gives the endpoint's route to the tables that it is made with, but takes it from those added
later as well, which have none.
"""

from __future__ import annotations

from typing import Any

__all__ = ["install"]


def install() -> None:
    """Replace moto's deletion of endpoints."""
    from moto.ec2.models import EC2Backend
    from moto.ec2.utils import generate_route_id

    delete = EC2Backend.delete_vpc_endpoints

    def delete_vpc_endpoints(backend: Any, vpce_ids: list[str] | None = None) -> Any:
        points = backend.vpc_end_points
        for endpoint in (points[each] for each in vpce_ids or () if each in points):
            endpoint.route_table_ids = [
                table
                for table in endpoint.route_table_ids or ()
                if generate_route_id(table, endpoint.destination_prefix_list_id)
                in backend.route_tables[table]._routes
            ]
        return delete(backend, vpce_ids)

    EC2Backend.delete_vpc_endpoints = delete_vpc_endpoints
