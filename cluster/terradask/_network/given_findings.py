"""What is wrong with given resources: certainly, or only likely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._aws.tags import tags_of
from terradask_modules.names import TAG_WORKSPACE
from terradask_stacks.errors import Finding


class LikelyFinding(Finding):
    """Something that is probably wrong: it is reported, and refuses nothing."""


def own_tag(
    where: str, given: str, description: Mapping[str, Any], workspace: str
) -> Iterator[Finding]:
    """Find given resources with this workspace's tag: destroying the network removes those."""
    tags = tags_of(description.get("Tags"))
    if tags.get(TAG_WORKSPACE) == workspace:
        yield Finding(
            where=where,
            problem=(
                f"it carries the tag {TAG_WORKSPACE} = {workspace}, by which terradask knows "
                "what is its own and may be removed"
            ),
            given=given,
            allowed="resources without this workspace's tag",
            advice=(
                f"remove the tag {TAG_WORKSPACE} from it, or leave the setting out if "
                "terradask made it"
            ),
        )
