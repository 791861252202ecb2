"""P3: launch templates create hosts that protect their credentials and disks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from terradask._policy.document import PlanDocument, Resource, Unknown, block, is_true
from terradask._policy.findings import PolicyFinding
from terradask._policy.roles import role_of
from terradask_modules.iam import listed

#: Resources that launch an instance without a template, so that nothing secures it.
_BESIDE_TEMPLATES = (
    "aws_instance",
    "aws_launch_configuration",
    "aws_spot_instance_request",
    "aws_spot_fleet_request",
    "aws_ec2_fleet",
)
#: What must get its tags at launch, so that nothing is ever found without an owner.
_TAGGED = ("instance", "volume", "network-interface")
#: Workers' addresses as the network's document has them: its own plan is checked for them.
_BASELINE = "${jsondecode(data.aws_s3_object.baseline.body).launch.public_address.worker}"

_error = partial(PolicyFinding, "P3", "error")


def launch_template_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield what a launch template leaves open, and what launches instances without templates."""
    for machine in document.of(*_BESIDE_TEMPLATES):
        yield _error(
            machine.address,
            "launches instances without a launch template",
            "launch them with a template and a group",
        )
    for template in document.of("aws_launch_template"):
        yield from _metadata(template)
        yield from _disks(template)
        yield from _addresses(template)
        if template.values.get("instance_initiated_shutdown_behavior") != "terminate":
            yield _error(
                template.address,
                "a host that powers itself off is only stopped, and its disk still costs",
                'set instance_initiated_shutdown_behavior = "terminate"',
            )
        tagged = {
            entry.get("resource_type")
            for entry in listed(template.values.get("tag_specifications"))
            if entry.get("tags")
        }
        missing = [kind for kind in _TAGGED if kind not in tagged]
        if missing:
            yield _error(
                template.address,
                f"gives no tags at launch to: {', '.join(missing)}",
                "add tag_specifications for them",
            )


def _metadata(template: Resource) -> Iterator[PolicyFinding]:
    options = block(template.values.get("metadata_options"))
    if options.get("http_tokens") != "required":
        yield _error(
            template.address,
            "hosts answer IMDSv1, which hands out credentials without a token",
            'set http_tokens = "required"',
        )
    if str(options.get("http_put_response_hop_limit")) != "1":
        yield _error(
            template.address,
            "instance metadata can be reached over more than one hop",
            "set http_put_response_hop_limit = 1",
        )


def _disks(template: Resource) -> Iterator[PolicyFinding]:
    disks = [
        block(mapping.get("ebs"))
        for mapping in listed(template.values.get("block_device_mappings"))
        if mapping.get("ebs")
    ]
    if not disks:
        yield _error(
            template.address,
            "takes the disk's encryption from the image",
            "add block_device_mappings with encrypted = true",
        )
    if not all(is_true(disk.get("encrypted")) for disk in disks):
        yield _error(
            template.address,
            "creates a disk that isn't encrypted",
            "set encrypted = true in every block_device_mappings.ebs",
        )


def _addresses(template: Resource) -> Iterator[PolicyFinding]:
    # Clients reach schedulers: the security group limits which (P2).
    if role_of(template) == "scheduler":
        return
    cards = listed(template.values.get("network_interfaces"))
    flags = [card.get("associate_public_ip_address") for card in cards]
    if flags and all(isinstance(flag, Unknown) and flag.template == _BASELINE for flag in flags):
        return
    if any(is_true(flag) for flag in flags):
        yield PolicyFinding(
            "P3",
            "warning",
            template.address,
            "gives its hosts public addresses",
            "leave network.public_workers out, unless workers need it to reach the internet",
        )
    elif not flags or any(flag in (None, "") or isinstance(flag, Unknown) for flag in flags):
        yield _error(
            template.address,
            "leaves public addresses to the subnet",
            "set associate_public_ip_address = false",
        )
