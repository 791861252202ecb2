"""What VPC Flow Logs may do to write a network's logs. Pure: plain dictionaries."""

from __future__ import annotations

from terradask_modules.iam import allow, policy_text, statement
from terradask_modules.names import flow_log_group_name
from terradask_modules.where import Where


def flow_logs_trust_policy(where: Where) -> str:
    """Return the document by which VPC Flow Logs alone, and for this account alone, may take a
    role.
    """
    condition = {
        "StringEquals": {"aws:SourceAccount": where.account},
        "ArnLike": {"aws:SourceArn": where.arn("ec2", "vpc-flow-log/*")},
    }
    service = {"Service": "vpc-flow-logs.amazonaws.com"}
    return policy_text(
        [statement("Allow", "sts:AssumeRole", principal=service, condition=condition)]
    )


def flow_logs_policy(where: Where) -> str:
    """Return what VPC Flow Logs may do: write to its log group."""
    group = where.arn("logs", f"log-group:{flow_log_group_name(where.workspace)}")
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
