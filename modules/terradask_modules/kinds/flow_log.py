"""The flow log of the network's VPC, and what VPC Flow Logs may do to write it. Pure."""

from __future__ import annotations

from terradask_modules.iam import allow, policy_text, statement
from terradask_modules.kinds.kind import Charge, Writer, in_ec2
from terradask_modules.where import Where

_SERVICE = "vpc-flow-logs.amazonaws.com"


def flow_logs_trust_policy(where: Where) -> str:
    """Return the document by which VPC Flow Logs alone, and for this account alone, may take a
    role.
    """
    condition = {
        "StringEquals": {"aws:SourceAccount": where.account},
        "ArnLike": {"aws:SourceArn": where.arn("ec2", "vpc-flow-log/*")},
    }
    service = {"Service": _SERVICE}
    return policy_text(
        [statement("Allow", "sts:AssumeRole", principal=service, condition=condition)]
    )


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


FLOW_LOGS = Writer("flow-logs", _SERVICE, flow_logs_policy)
FLOW_LOG = in_ec2(
    "aws_flow_log",
    prefix="fl",
    in_list=True,
    is_optional=True,
    adopt="in_vpc",
    type="vpc-flow-log",
    make="CreateFlowLogs",
    within="vpc",
    setting="flow_logs",
    writer=FLOW_LOGS,
    price=Charge("flow logs", "by the GB"),
)
