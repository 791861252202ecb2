"""Correct launch templates: their own tags, user data of every version, missing ids and paging.

moto copies the tags of CreateLaunchTemplate into the template's data, where the Terraform provider
sees a ``tag_specifications`` block that Terraform's configuration lacks: a plan that never becomes
empty. It decodes user data only for the first version, so that an instance of the second version
fails to launch. It always shows the tags of the template's creation, so that every plan adds a
later tag again. It omits ids that don't exist, and has another error for deleting them, which the
provider doesn't handle:
https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/ec2/ec2_launch_template.go
It lists at most fifteen and returns no token for the rest. It takes any name, and a template
without data, and lists the first version first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.pages import page
from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

#: AWS (documented): EC2 DescribeLaunchTemplates returns up to 200 templates a page.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeLaunchTemplates.html
_LARGEST_PAGE = 200
#: How many are listed by default. AWS doesn't document its number; with a small one, a client that
#: doesn't request the next page fails early.
_UNASKED = 15
_EVERY = 1_000_000

# AWS (documented): a template's name has 3 to 128 characters of these.
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html
_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
#: https://github.com/github-aws-runners/terraform-aws-github-runner/issues/932
_BAD_NAME = (
    "A launch template name must be between 3 and 128 characters, and may contain letters, "
    "numbers, and the following characters: - ( ) . / _."
)
#: https://github.com/awsdocs/aws-cloudformation-user-guide/pull/453
_NO_DATA = (
    "No launch template data was provided. Launch template data is required to create a launch "
    "template."
)


def install() -> None:
    """Replace moto's launch template functions."""
    from moto.core.types import Base64EncodedString
    from moto.ec2.exceptions import InvalidLaunchTemplateIdNotFound
    from moto.ec2.models.launch_templates import LaunchTemplate, LaunchTemplateBackend
    from moto.ec2.responses.launch_templates import LaunchTemplates as Responses
    from moto.ec2.utils import parse_user_data

    @around(LaunchTemplateBackend, "create_launch_template")
    def create_template(
        create: Any, backend: Any, name: str, description: str, *given: dict[str, Any]
    ) -> Any:
        template_data, tag_spec = given
        if not _NAME.fullmatch(name or ""):
            raise ec2_error("InvalidLaunchTemplateName.MalformedException", _BAD_NAME)
        wanted = [
            spec
            for spec in template_data.get("TagSpecifications", [])
            if spec.get("ResourceType") != "launch-template"
        ]
        data = {key: value for key, value in template_data.items() if key != "TagSpecifications"}
        if wanted:
            data["TagSpecifications"] = wanted
        if not any(data.values()):
            raise ec2_error("MissingParameter", _NO_DATA)
        return create(backend, name, description, data, tag_spec)

    @around(LaunchTemplate, "create_version")
    def create_version(create: Any, template: Any, data: dict[str, Any], description: str) -> Any:
        user_data = data.get("UserData")
        if user_data is not None and not isinstance(user_data, Base64EncodedString):
            data = {**data, "UserData": parse_user_data(user_data)}
        return create(template, data, description)

    @around(LaunchTemplateBackend, "describe_launch_templates")
    def describe_templates(describe: Any, backend: Any, **asked: Any) -> Any:
        for identity in asked.get("template_ids") or ():
            if identity not in backend.launch_templates:
                raise InvalidLaunchTemplateIdNotFound(identity)
        return describe(backend, **asked)

    @around(LaunchTemplateBackend, "delete_launch_template")
    def delete_template(delete: Any, backend: Any, name: str, identity: str | None) -> Any:
        if identity and identity not in backend.launch_templates:
            raise InvalidLaunchTemplateIdNotFound(identity)
        return delete(backend, name, identity)

    LaunchTemplate.tags = property(
        lambda template: template.get_tags(), lambda template, tags: None
    )
    for operation, member in (
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_launch_template_versions", "LaunchTemplateVersions"),
    ):
        around(Responses, operation)(_paged(member))


def _paged(member: str) -> Callable[[Any, Any], Any]:
    """Return a function that splits one of moto's responses into pages."""
    from moto.core.responses import ActionResult

    def described(describe: Any, response: Any) -> Any:
        asked = response.params
        response.params = {**asked, "MaxResults": _EVERY}
        found = describe(response).result[member]
        if {"LaunchTemplateId", "LaunchTemplateName"} & asked.keys() and "Version" in member:
            # AWS (recorded): the last version comes first.
            # tests/records/data/ec2-launch-templates.json
            found = sorted(found, key=lambda version: -version["VersionNumber"])
        response.params = {"MaxResults": _UNASKED, **asked}
        return ActionResult(page(member, found, response, smallest=1, most=_LARGEST_PAGE))

    return described
