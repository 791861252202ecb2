"""A cluster's secret: its keys while it runs. Written only if it carries the cluster's tags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask._aws.tags import as_text, found_tags, tags_of
from terradask._deployments.place import ClusterPlace
from terradask.errors import ClusterError, ForeignResources
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE


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
    def _description(self) -> Mapping[str, Any] | None:
        client = self._aws.client("secretsmanager")
        with unless("ResourceNotFoundException"):
            found: Mapping[str, Any] = client.describe_secret(SecretId=self._place.secret_id)
            # One that is scheduled for deletion takes no value any more.
            return None if found.get("DeletedDate") else found
        return None

    @property
    def exists(self) -> bool:
        """Whether it is there, and not to be deleted."""
        return self._description is not None

    @property
    def tags(self) -> dict[str, str]:
        """Its tags, read once. Raises `ClusterError`."""
        found, cluster = self._description, self._place.cluster
        if found is None:
            raise ClusterError(
                f"The secret of cluster {cluster!r} is gone, which holds the keys of its runs.",
                cluster=cluster,
                given=f"no secret {self._place.secret_id}",
                advice=f"terradask apply {cluster} makes it again",
            )
        return tags_of(found.get("Tags"))

    def check_own(self) -> None:
        """Refuse a secret that isn't the cluster's by its tags.

        Raises `ForeignResources`, `ClusterError`.
        """
        if self._is_own:
            return
        place = self._place
        expected = {TAG_WORKSPACE: place.workspace, TAG_CLUSTER: place.cluster}
        tags = self.tags
        if not expected.items() <= tags.items():
            advice = (
                "put its tags back (aws secretsmanager tag-resource) if Terraform made it for this "
                "cluster; otherwise remove it"
            )
            raise foreign_secret(place.cluster, place.secret_id, tags, expected, advice)
        self._is_own = True

    def write(self, document: dict[str, Any], *, version_id: str) -> None:
        """Write its value. Raises `ForeignResources`, `ClusterError`."""
        self.check_own()
        self._aws.client("secretsmanager").put_secret_value(
            SecretId=self._place.secret_id,
            SecretString=json.dumps(document),
            ClientRequestToken=version_id,
        )


def foreign_secret(
    cluster: str, name: str, tags: Mapping[str, str], expected: Mapping[str, str], advice: str
) -> ForeignResources:
    """Return the error for a secret under a cluster's name without the cluster's tags."""
    why = found_tags(tags, expected)
    return ForeignResources(
        f"The secret under the name of cluster {cluster!r} isn't this cluster's; it was left "
        "alone.",
        cluster=cluster,
        resources=[{"type": "aws_secretsmanager_secret", "id": name, "why": why}],
        allowed=f"the tags {as_text(expected)}",
        advice=advice,
    )
