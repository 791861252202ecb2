"""Flow logs: described as EC2 does, and refused by a role that EC2 doesn't know yet.

AWS (reported): CreateFlowLogs answers InvalidParameter for a new role.
https://github.com/hashicorp/terraform-provider-aws/issues/29323
"""

from __future__ import annotations

import uuid
from typing import Any

from terradask_simulator.aws.fidelity.descriptions import describe
from terradask_simulator.aws.fidelity.ec2_errors import ec2_error
from terradask_simulator.aws.fidelity.patching import around
from terradask_simulator.aws.fidelity.young_identities import CHECKS, is_young, role_named
from terradask_simulator.aws.iam.operation import Operation, named
from terradask_simulator.aws.iam.refusals import Refusal, worded

__all__ = ["install"]


def install() -> None:
    """Complete moto's flow logs."""
    from moto.core.responses import ActionResult
    from moto.ec2.models.flow_logs import FlowLogs
    from moto.ec2.responses.flow_logs import FlowLogs as Responses

    CHECKS["ec2", "CreateFlowLogs"] = _of_young_role
    describe(FlowLogs, LogDestination=_destination, DestinationOptions=_options)

    @around(Responses, "create_flow_logs")
    def create(create: Any, response: Any) -> Any:
        to_bucket = response._get_param("LogDestinationType") == "s3"
        destination = response._get_param("LogDestination")
        if to_bucket and response._get_param("LogGroupName") and destination:
            raise ec2_error(
                "InvalidParameter",
                "Please only provide LogGroupName or only provide LogDestination.",
            )
        answer = create(response)
        for one in answer.result["Unsuccessful"]:
            one["Error"]["Message"] = one["Error"]["Message"].removesuffix(".")
        answer.result["ClientToken"] = response._get_param("ClientToken") or str(uuid.uuid4())
        return answer

    @around(Responses, "delete_flow_logs")
    def delete(delete: Any, response: Any) -> Any:
        delete(response)
        return ActionResult({"Unsuccessful": []})


def _destination(log: Any) -> str | None:
    if log.log_destination or not log.log_group_name:
        return str(log.log_destination) if log.log_destination else None
    backend = log.ec2_backend
    return (
        f"arn:{backend.partition}:logs:{backend.region_name}:{backend.account_id}:log-group:"
        f"{log.log_group_name}"
    )


def _options(log: Any) -> dict[str, Any] | None:
    if log.log_destination_type != "s3":
        return None
    return {
        "FileFormat": "plain-text",
        "HiveCompatiblePartitions": False,
        "PerHourPartition": False,
    }


def _of_young_role(operation: Operation) -> Refusal | None:
    arn = named(operation.parameters, "DeliverLogsPermissionArn")
    if not is_young(role_named(arn)):
        return None
    message = f"Unable to assume given IAM role: '{arn}'"
    return worded(operation, "InvalidParameter", message, "400 Bad Request")
