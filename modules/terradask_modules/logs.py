"""Log groups: hosts' logs, and flow logs of a VPC."""

from __future__ import annotations

from collections.abc import Mapping

from terradask_modules.aws import CloudwatchLogGroup, Construct, FlowLog, IamRole, IamRolePolicy, at
from terradask_modules.identity import RoleRules
from terradask_modules.kinds.vpc import FLOW_LOGS
from terradask_modules.names import log_group_name, resource_name
from terradask_modules.where import Where


class Logs(Construct):
    """The workspace's log group, with one stream for each host.

    Resources created: a CloudWatch log group, encrypted by a KMS key or CloudWatch's own. It costs
    by what is written and kept.
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


_NAME = FLOW_LOGS.name


class FlowLogs(Construct):
    """The flow logs of a VPC, all traffic, in a log group of their own.

    Resources created: a flow log, a log group, and a role with one inline policy by which AWS
    writes there, as the company's rules for roles demand. They cost by what is written and kept.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        vpc_id: str,
        where: Where,
        rules: RoleRules,
        retention_days: int,
        kms_key_arn: str | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, _NAME)
        tags = dict(tags)
        group = CloudwatchLogGroup(
            self,
            "group",
            name=FLOW_LOGS.log_group(where.workspace),
            retention_in_days=retention_days,
            kms_key_id=kms_key_arn,
            tags=tags,
        )
        at(_NAME, group)
        name = where.role_name(_NAME, rules.name_prefix)
        role = IamRole(
            self,
            "role",
            name=name,
            path=rules.path,
            permissions_boundary=rules.permissions_boundary,
            description=f"VPC flow logs of terradask workspace {where.workspace}",
            assume_role_policy=FLOW_LOGS.trust_policy(where),
            force_detach_policies=True,
            tags=tags,
        )
        at(_NAME, role)
        policy = IamRolePolicy(
            self, "policy", name=name, role=role.name, policy=FLOW_LOGS.policy(where)
        )
        at(_NAME, policy)
        log = FlowLog(
            self,
            "log",
            vpc_id=vpc_id,
            traffic_type="ALL",
            log_destination=group.arn,
            iam_role_arn=role.arn,
            tags={**tags, "Name": resource_name(where.workspace, _NAME)},
            depends_on=[policy],
        )
        at("this", log)
