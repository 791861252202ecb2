"""A cluster's secret: its keys while it runs. Written only if it carries the cluster's tags."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from terradask._aws.tags import as_text, found_tags, tags_of
from terradask.errors import ForeignResources
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._deployments.place import ClusterPlace


class ClusterSecret:
    """One cluster's secret, which Terraform made.

    Permissions needed: ``secretsmanager:DescribeSecret`` and ``secretsmanager:PutSecretValue`` on
    it.
    """

    def __init__(self, aws: Aws, place: ClusterPlace) -> None:
        self._aws = aws
        self._place = place
        self._is_own = False

    @cached_property
    def tags(self) -> dict[str, str]:
        """Its tags, read once."""
        client = self._aws.client("secretsmanager")
        return tags_of(client.describe_secret(SecretId=self._place.secret_id).get("Tags"))

    def check_own(self) -> None:
        """Refuse a secret that isn't the cluster's by its tags. Raises `ForeignResources`."""
        if self._is_own:
            return
        place = self._place
        expected = {TAG_WORKSPACE: place.workspace, TAG_CLUSTER: place.cluster}
        tags = self.tags
        if not expected.items() <= tags.items():
            raise ForeignResources(
                f"The secret under the name of cluster {place.cluster!r} isn't this cluster's; it "
                "was left alone.",
                cluster=place.cluster,
                resources=[
                    {
                        "type": "aws_secretsmanager_secret",
                        "id": place.secret_id,
                        "why": found_tags(tags, expected),
                    }
                ],
                allowed=f"the tags {as_text(expected)}",
                advice=(
                    "put its tags back (aws secretsmanager tag-resource) if Terraform made it for "
                    "this cluster; otherwise remove it"
                ),
            )
        self._is_own = True

    def write(self, document: dict[str, Any], *, version_id: str) -> None:
        """Write its value. Raises `ForeignResources`."""
        self.check_own()
        self._aws.client("secretsmanager").put_secret_value(
            SecretId=self._place.secret_id,
            SecretString=json.dumps(document),
            ClientRequestToken=version_id,
        )
