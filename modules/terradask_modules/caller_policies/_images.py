"""Rights to make and remove images of the workspace's own: an instance, launched from the network's
templates, becomes one.
"""

from __future__ import annotations

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow, both
from terradask_modules.names import IMAGE_REPORTS, IMAGE_ROLE, TAG_ROLE

#: The types of resources that a launch makes.
_BORN = ("instance", "network-interface", "volume")


def keep_images(scope: CallerScope) -> list[Statement]:
    """Return the rights of ``terradask image``, in addition to those of the network."""
    run = "ec2:RunInstances"
    snapshots = scope.where.aws_arn("ec2", "snapshot/*")
    asked = {"StringEquals": {f"aws:RequestTag/{TAG_ROLE}": IMAGE_ROLE}}
    is_one = {"StringEquals": {f"aws:ResourceTag/{TAG_ROLE}": IMAGE_ROLE}}
    own = scope.ec2("launch-template", *scope.own_parts)
    given = scope.given_parts
    from_template = {"ArnLike": {"ec2:LaunchTemplate": scope.ec2("launch-template")[0]}}
    tagged, owned = both(scope.tagged, asked), both(scope.where.own, is_one)
    return [
        allow("LaunchForImagesOnNetwork", run, own, scope.where.own),
        *([allow("LaunchForImagesOnGiven", run, given)] if given else []),
        allow("LaunchForImages", run, scope.ec2(*_BORN), both(tagged, from_template)),
        # Any that the account may launch: the settings check its owner.
        allow("LaunchAnyImage", run, scope.images, from_template),
        allow("MakeImages", "ec2:CreateImage", [scope.images, snapshots], tagged),
        allow("MakeImagesOf", "ec2:CreateImage", scope.ec2("instance"), owned),
        scope.tag_at_birth(
            "TagImagesAtBirth",
            [*scope.ec2(*_BORN), scope.images, snapshots],
            tagged,
            ["RunInstances", "CreateImage"],
        ),
        allow(
            "RemoveImages",
            ["ec2:DeregisterImage", "ec2:DeleteSnapshot"],
            [scope.images, snapshots],
            owned,
        ),
        allow("EndInstancesOfImages", "ec2:TerminateInstances", scope.ec2("instance"), owned),
        allow("ReadReportsOfImages", "s3:GetObject", f"{scope.bucket}/{IMAGE_REPORTS}*"),
        # Those of the network's own roles are passed when their profiles are made.
        *(
            [allow("PassRolesForImages", "iam:PassRole", scope.roles, scope.to_instances)]
            if scope.given_roles
            else []
        ),
    ]
