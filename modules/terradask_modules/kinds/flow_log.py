"""The flow log of the network's VPC, and what VPC Flow Logs may do to write it. Pure."""

from __future__ import annotations

from terradask_modules.iam import allow, policy_text
from terradask_modules.kinds.kind import Charge, Writer, in_ec2
from terradask_modules.where import Where

_TYPE = "vpc-flow-log"


def flow_logs_policy(where: Where) -> str:
    """Return what VPC Flow Logs may do: write to its log group."""
    group = where.arn("logs", f"log-group:{FLOW_LOGS.log_group(where.workspace)}")
    return policy_text(
        [
            allow(
                "WriteFlowLogs",
                [
                    "logs:CreateLogStream",
                    "logs:DescribeLogGroups",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                ],
                [group, f"{group}:*"],
            )
        ]
    )


FLOW_LOGS = Writer("flow-logs", "vpc-flow-logs.amazonaws.com", _TYPE, flow_logs_policy)
FLOW_LOG = in_ec2(
    "aws_flow_log",
    after=(
        "aws_vpc",
        "aws_cloudwatch_log_group",
        "aws_iam_role",
    ),
    prefix="fl",
    in_list=True,
    is_optional=True,
    adopt="in_vpc",
    type=_TYPE,
    make="CreateFlowLogs",
    within="vpc",
    setting="flow_logs",
    writer=FLOW_LOGS,
    price=Charge("flow logs", "by the GB"),
)
