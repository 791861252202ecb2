"""Corrections of moto 5.2.5 that the plan tests need, so that a second plan is as clean as on AWS.

Each function replaces one of moto's in the process that serves it.
"""

import json
from typing import Any


def install() -> None:
    """Replace what is wrong."""
    _tls_only_policies()
    _rule_descriptions()
    _template_tags()
    _delete_markers()
    _endpoint_routes()


def _tls_only_policies() -> None:
    """moto evaluates bucket policies without their conditions, so that "Deny without TLS" denies everything."""
    from moto.s3.models import FakeBucket

    evaluate = FakeBucket.get_permission

    def get_permission(self: Any, action: str, resource: str) -> Any:
        whole = self.policy
        if whole is None:
            return evaluate(self, action, resource)
        document = json.loads(whole)
        document["Statement"] = [
            statement for statement in document["Statement"] if "aws:SecureTransport" not in json.dumps(statement.get("Condition", {}))
        ]
        self.policy = json.dumps(document).encode()
        try:
            return evaluate(self, action, resource)
        finally:
            self.policy = whole

    FakeBucket.get_permission = get_permission


def _rule_descriptions() -> None:
    """moto keeps a rule's description where its peer is a block, not where it is a group or prefix list."""
    from moto.ec2.models.security_groups import SecurityGroupRule

    initialise = SecurityGroupRule.__init__

    def remember(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        prefix_list = kwargs.get("prefix_list_id") or (args[7] if len(args) > 7 else None) or {}
        peers = (self.ip_range, self.source_group, prefix_list)
        self.described = next((peer["Description"] for peer in peers if "Description" in peer), None)

    SecurityGroupRule.__init__ = remember
    SecurityGroupRule.description = property(lambda self: self.described)


def _template_tags() -> None:
    """moto puts a launch template's own tags into its data as well."""
    from moto.ec2.models.launch_templates import LaunchTemplateVersion

    initialise = LaunchTemplateVersion.__init__

    def without_own_tags(self: Any, template: Any, number: int, data: dict[str, Any], description: str) -> None:
        kept = [
            specification for specification in data.get("TagSpecifications", []) if specification.get("ResourceType") != "launch-template"
        ]
        if "TagSpecifications" in data:
            data = {**data, "TagSpecifications": kept}
        initialise(self, template, number, data, description)

    LaunchTemplateVersion.__init__ = without_own_tags


def _delete_markers() -> None:
    """moto fails to delete a version when it is a delete marker, so that no versioned bucket can be emptied."""
    from moto.s3.models import FakeDeleteMarker

    FakeDeleteMarker.dispose = lambda self: None


def _endpoint_routes() -> None:
    """moto gives a gateway endpoint's route to the tables that it is made with, but takes it from those added later as well."""
    from moto.ec2.models import EC2Backend
    from moto.ec2.utils import generate_route_id

    delete = EC2Backend.delete_vpc_endpoints

    def delete_vpc_endpoints(self: Any, vpce_ids: list[str] | None = None) -> None:
        for endpoint in (self.vpc_end_points[each] for each in vpce_ids or () if each in self.vpc_end_points):
            endpoint.route_table_ids = [
                table
                for table in endpoint.route_table_ids or ()
                if generate_route_id(table, endpoint.destination_prefix_list_id) in self.route_tables[table]._routes
            ]
        delete(self, vpce_ids)

    EC2Backend.delete_vpc_endpoints = delete_vpc_endpoints


if __name__ == "__main__":
    import sys

    install()
    from moto.server import main

    main(sys.argv[1:])
