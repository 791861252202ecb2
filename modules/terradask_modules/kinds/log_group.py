"""Log groups, of hosts and of what AWS writes. Pure."""

from __future__ import annotations

from terradask_modules.kinds.kind import Charge, Deletion, Named, ResourceKind

LOG_GROUP = ResourceKind(
    "aws_cloudwatch_log_group",
    service="logs",
    find=Named(),
    delete=Deletion("delete_log_group", "logGroupName"),
    adopt="named",
    price=Charge("logs", "by the GB taken in and kept"),
    loss="the hosts' logs are lost",
)
