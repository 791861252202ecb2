"""Where hosts' logs go."""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.aws import CloudwatchLogGroup, Construct, at
from terradask_modules.names import log_group_name


class Logs(Construct):
    """The workspace's log group; each host writes a stream of its own.

    Resources created: a CloudWatch log group. It costs by what is written and kept.

    Parameters
    ----------
    workspace
        Name of the workspace.
    retention_days
        Days that CloudWatch keeps the logs.
    kms_key_arn
        KMS key that encrypts them. None: CloudWatch's own.
    tags
        Tags of the group.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        retention_days: int,
        kms_key_arn: str | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "logs")
        self.group_name = log_group_name(workspace)
        group = CloudwatchLogGroup(
            self,
            "hosts",
            name=self.group_name,
            retention_in_days=retention_days,
            kms_key_id=kms_key_arn,
            tags=dict(tags),
        )
        at("hosts", group)
