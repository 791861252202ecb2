"""P7: images are looked up among known owners' only: any account may publish any name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._policy.document import PlanDocument, Resource, Unknown, written_document
from terradask._policy.findings import PolicyFinding
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
            yield PolicyFinding(
                "P7", "error", source.address, "looks up an image of any owner", _ADVICE
            )
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
                yield PolicyFinding(
                    "P7",
                    "warning",
                    resource.address,
                    f"takes its image from {name}, which could name any",
                    _ADVICE,
                )


def _unnamed(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield images that the network's document, made of the same answers, doesn't name."""
    launches = [written_document(item).get("launch") for item in document.of("aws_s3_object")]
    named = [
        {*images.values(), *_mapping(launch.get("gpu_image_ids")).values()}
        for launch in launches
        if isinstance(launch, Mapping) and isinstance(images := launch.get("image_ids"), Mapping)
    ]
    for template in document.of("aws_launch_template"):
        image = template.values.get("image_id")
        if named and isinstance(image, str) and image not in named[0]:
            yield PolicyFinding(
                "P7",
                "error",
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
