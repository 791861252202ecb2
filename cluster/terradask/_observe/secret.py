"""Read and write a cluster's secret, which holds its keys while it runs; refuse to write one
without the cluster's tags.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask._aws.tags import as_text, found_tags, tags_of
from terradask.errors import AccessDenied, ClusterError, ForeignResources, QuotaExceeded
from terradask_modules.where import ClusterWhere

_CURRENT = "AWSCURRENT"
#: The label of the version without keys, which every stop makes current.
_WITHOUT_KEYS = "terradask-without-keys"
#: Most attempts to move the label while concurrent starts put other keys.
_MOST_MOVES = 3


#: Most starts of a cluster in 24 hours, and for how many of the last ones a start warns.
MOST_STARTS, NEAR_STARTS = 99, 20


class ClusterSecret:
    """One cluster's secret, which Terraform created.

    So each start creates one version, and all stops share one with a label of its own.

    AWS (documented, secret-versions): Secrets Manager keeps 100 versions of a secret, all of the
    last 24 hours, and those with a label.
    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html

    Permissions needed: ``secretsmanager:DescribeSecret``, ``secretsmanager:PutSecretValue`` and
    ``secretsmanager:UpdateSecretVersionStage`` on it.
    """

    def __init__(self, aws: Aws, where: ClusterWhere) -> None:
        self._aws = aws
        self._where = where
        self._is_own = False

    @cached_property
    def _description(self) -> Mapping[str, Any] | None:
        client = self._aws.client("secretsmanager")
        with unless("ResourceNotFoundException"):
            found: Mapping[str, Any] = client.describe_secret(SecretId=self._where.secret_id)
            # A secret that is scheduled for deletion accepts no value.
            return None if found.get("DeletedDate") else found
        return None

    @property
    def exists(self) -> bool:
        """Whether the secret exists, and isn't scheduled for deletion."""
        return self._description is not None

    @property
    def tags(self) -> dict[str, str]:
        """The secret's tags, read once. Raises `ClusterError`."""
        found, cluster = self._description, self._where.cluster
        if found is None:
            raise ClusterError(
                f"The secret of cluster {cluster!r}, which holds the keys of its runs, is missing.",
                cluster=cluster,
                given=f"no secret {self._where.secret_id}",
                advice=f"terradask apply {cluster} creates it again",
            )
        return tags_of(found.get("Tags"))

    def check_own(self) -> None:
        """Refuse a secret without the cluster's tags. Raises `ForeignResources`, `ClusterError`."""
        if self._is_own:
            return
        where, cluster = self._where, self._where.cluster
        expected = where.tags
        tags = self.tags
        if not expected.items() <= tags.items():
            advice = (
                "put its tags back (aws secretsmanager tag-resource) if Terraform made it for this "
                "cluster; otherwise remove it"
            )
            raise foreign_secret(cluster, where.secret_id, tags, expected, advice)
        self._is_own = True

    def empty(self) -> bool:
        """Replace the value by one without keys, so that booting hosts find none; return whether
        that was possible. A caller without ``UpdateSecretVersionStage`` can't after a hundred
        versions in a day.

        Raises `ForeignResources`, `ClusterError`.
        """
        self.check_own()
        client = self._aws.client("secretsmanager")
        found = self._description or {}
        for attempt in range(_MOST_MOVES):
            if attempt:
                found = client.describe_secret(SecretId=self._where.secret_id)
            held = found.get("VersionIdsToStages", {})
            current, without = (_version(label, held) for label in (_CURRENT, _WITHOUT_KEYS))
            if current in (None, without):
                if attempt:
                    return True
                # A start may have put keys since that read.
                continue
            if without is None:
                return self._put_empty(_CURRENT, _WITHOUT_KEYS)
            try:
                # Fails if a start has put other keys meanwhile: the label has moved.
                with unless("InvalidParameterException"):
                    client.update_secret_version_stage(
                        SecretId=self._where.secret_id,
                        VersionStage=_CURRENT,
                        RemoveFromVersionId=current,
                        MoveToVersionId=without,
                    )
                    return True
            except AccessDenied:
                return self._put_empty(_CURRENT)
        return False

    def _put_empty(self, *labels: str) -> bool:
        try:
            self.write({"format": 1}, version_id=str(uuid.uuid4()), labels=labels)
        except QuotaExceeded:
            return False
        return True

    def write(
        self, document: Mapping[str, Any], *, version_id: str, labels: Sequence[str] = (_CURRENT,)
    ) -> None:
        """Write a version. Raises `ForeignResources`, `ClusterError`, `QuotaExceeded`."""
        self.check_own()
        where, cluster = self._where, self._where.cluster
        with unless("LimitExceededException"):
            self._aws.client("secretsmanager").put_secret_value(
                SecretId=where.secret_id,
                SecretString=json.dumps(document),
                ClientRequestToken=version_id,
                VersionStages=list(labels),
            )
            return
        raise QuotaExceeded(
            f"Cluster {cluster!r} was started too often in the last 24 hours.",
            cluster=cluster,
            given="100 versions of its secret, none older than a day",
            allowed=(
                f"{MOST_STARTS} starts in 24 hours: each creates a version, and AWS removes none "
                "earlier"
            ),
            advice="start it later, or use a cluster of another name meanwhile; keep one running "
            "for many short jobs",
        )


def _version(label: str, held: Mapping[str, Sequence[str]]) -> str | None:
    """Return the version with a label, or None."""
    return next((version for version, labels in held.items() if label in labels), None)


def foreign_secret(
    cluster: str, name: str, tags: Mapping[str, str], expected: Mapping[str, str], advice: str
) -> ForeignResources:
    """Return the error for a secret under a cluster's name without the cluster's tags."""
    why = found_tags(tags, expected)
    return ForeignResources(
        f"The secret with the name of cluster {cluster!r} isn't this cluster's; it wasn't changed.",
        cluster=cluster,
        resources=[{"type": "aws_secretsmanager_secret", "id": name, "why": why}],
        allowed=f"the tags {as_text(expected)}",
        advice=advice,
    )
