"""P3 and P7: launch templates protect hosts, and images come from known owners, since any account
can publish an image of any name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._plans.policy.document import (
    PlanDocument,
    Resource,
    Unknown,
    block,
    is_true,
    written_document,
)
from terradask._plans.policy.findings import PolicyFinding, error, warning
from terradask._plans.policy.openings import role_of
from terradask_modules.iam import listed

_LOOKUPS = ("aws_ami", "aws_ami_ids")
#: Filters of DescribeImages that select the image's owner, or the image itself.
_DECIDING_FILTERS = frozenset({"owner-id", "owner-alias", "image-id"})
#: Data sources that name an image and are checked here, or belong to the account or to AWS.
_TRUSTED_SOURCES = (
    "data.aws_ami.",
    "data.aws_ami_ids.",
    "data.aws_ssm_parameter.",
    "data.aws_s3_object.",
    "data.aws_launch_template.",
)
_ADVICE = 'name the owners, such as owners = ["amazon"], or the image\'s id'


def image_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield lookups of images that could return any account's image."""
    for source in document.data:
        if source.type in _LOOKUPS and not _owned(source):
            yield error(source.address, "looks up an image of any owner", _ADVICE)
    yield from _unnamed(document)
    for resource in document.of("aws_launch_template", "aws_instance", "aws_launch_configuration"):
        attribute = "ami" if resource.type == "aws_instance" else "image_id"
        value = resource.values.get(attribute)
        if isinstance(value, Unknown):
            foreign = [
                name
                for name in value.references
                if name.partition("data.")[1] and not _trusted(name)
            ]
            for name in foreign:
                yield warning(
                    resource.address, f"takes its image from {name}, which could be any", _ADVICE
                )


def _unnamed(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield images that the network's document, with the same answers, doesn't name."""
    launches = [written_document(item).get("launch") for item in document.of("aws_s3_object")]
    named = [
        {*images.values(), *_mapping(launch.get("gpu_image_ids")).values()}
        for launch in launches
        if isinstance(launch, Mapping) and isinstance(images := launch.get("image_ids"), Mapping)
    ]
    for template in document.of("aws_launch_template"):
        image = template.values.get("image_id")
        if named and isinstance(image, str) and image not in named[0]:
            yield error(
                template.address,
                f"starts {image}, which isn't the network's image",
                "plan the network again: its images are locked",
            )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _trusted(reference: str) -> bool:
    return ("data." + reference.partition("data.")[2]).startswith(_TRUSTED_SOURCES)


def _owned(source: Resource) -> bool:
    owners = listed(source.values.get("owners"))
    if owners:
        return all(
            isinstance(owner, Unknown) or (bool(owner) and "*" not in str(owner))
            for owner in owners
        )
    filters = [
        entry
        for entry in listed(source.values.get("filter"))
        if entry.get("name") in _DECIDING_FILTERS
    ]
    values = [value for entry in filters for value in listed(entry.get("values"))]
    return bool(values) and not any("*" in str(value) for value in values)


# ---- P3: launch templates protect hosts' credentials and disks -----------------------------------


#: Resources that launch an unsecured instance, without a template.
_BESIDE_TEMPLATES = (
    "aws_instance",
    "aws_launch_configuration",
    "aws_spot_instance_request",
    "aws_spot_fleet_request",
    "aws_ec2_fleet",
)
#: Items that must get tags at launch, so that each has an owner.
_TAGGED = ("instance", "volume", "network-interface")
#: Workers' addresses in the network's document; the network's own plan is checked for them.
_BASELINE = "${jsondecode(data.aws_s3_object.baseline.body).launch.public_address.worker}"


def launch_template_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield unsafe parts of launch templates, and launches without templates."""
    for machine in document.of(*_BESIDE_TEMPLATES):
        yield error(
            machine.address,
            "launches instances without a launch template",
            "launch them with a template and a group",
        )
    for template in document.of("aws_launch_template"):
        yield from _metadata(template)
        yield from _disks(template)
        yield from _addresses(template)
        if template.values.get("instance_initiated_shutdown_behavior") != "terminate":
            yield error(
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
            yield error(
                template.address,
                f"gives no tags at launch to: {', '.join(missing)}",
                "add tag_specifications for them",
            )


def _metadata(template: Resource) -> Iterator[PolicyFinding]:
    options = block(template.values.get("metadata_options"))
    if options.get("http_tokens") != "required":
        yield error(
            template.address,
            "hosts answer IMDSv1, which hands out credentials without a token",
            'set http_tokens = "required"',
        )
    if str(options.get("http_put_response_hop_limit")) != "1":
        yield error(
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
        yield error(
            template.address,
            "takes the disk's encryption from the image",
            "add block_device_mappings with encrypted = true",
        )
    if not all(is_true(disk.get("encrypted")) for disk in disks):
        yield error(
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
        yield warning(
            template.address,
            "gives its hosts public addresses",
            "leave network.public_workers out, unless workers need it to reach the internet",
        )
    elif not flags or any(flag in (None, "") or isinstance(flag, Unknown) for flag in flags):
        yield error(
            template.address,
            "leaves public addresses to the subnet",
            "set associate_public_ip_address = false",
        )
