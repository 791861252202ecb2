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
            statement
            for statement in document["Statement"]
            if "aws:SecureTransport" not in json.dumps(statement.get("Condition", {}))
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

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        peers = (self.ip_range, self.source_group, kwargs.get("prefix_list_id") or {})
        self.described = next((peer["Description"] for peer in peers if "Description" in peer), None)

    SecurityGroupRule.__init__ = __init__
    SecurityGroupRule.description = property(lambda self: self.described)


def _template_tags() -> None:
    """moto puts a launch template's own tags into its data as well."""
    from moto.ec2.models.launch_templates import LaunchTemplateVersion

    initialise = LaunchTemplateVersion.__init__

    def __init__(self: Any, template: Any, number: int, data: dict[str, Any], description: str) -> None:
        kept = [
            specification
            for specification in data.get("TagSpecifications", [])
            if specification.get("ResourceType") != "launch-template"
        ]
        if "TagSpecifications" in data:
            data = {**data, "TagSpecifications": kept}
        initialise(self, template, number, data, description)

    LaunchTemplateVersion.__init__ = __init__


if __name__ == "__main__":
    import sys

    install()
    from moto.server import main

    main(sys.argv[1:])
