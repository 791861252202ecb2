"""Link to a workspace's logs in AWS's console."""

from __future__ import annotations

from terradask_modules.names import log_group_name
from terradask_modules.partitions import partition_of


def console_link(region: str, workspace: str) -> str | None:
    """Return the link to a workspace's log group; None where the console's address isn't known.

    AWS (reported, console-logs-link): The console shows a log group at
    ``#logsV2:log-groups/log-group/NAME``, with each slash of the name as ``$252F``.
    https://newbedev.com/is-there-a-way-to-generate-the-aws-console-urls-for-cloudwatch-log-group-filters
    """
    if partition_of(region) != "aws":
        return None
    name = log_group_name(workspace).replace("/", "$252F")
    home = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
    return f"{home}#logsV2:log-groups/log-group/{name}"
