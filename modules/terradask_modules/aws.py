"""The one door to cdktf and the AWS provider's bindings: nothing else imports them.

Moving to another framework or other bindings is a change of this file and of
:mod:`terradask_modules.bindings`.
"""

from __future__ import annotations

import terradask_modules.bindings  # isort: split

from typing import TYPE_CHECKING, Any

from constructs import Construct
from jsii.errors import JSIIError

from cdktf import (
    App,
    Fn,
    LocalBackend,
    Postcondition,
    S3Backend,
    TerraformElement,
    TerraformOutput,
    TerraformResourceLifecycle,
    TerraformStack,
    Token,
)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Stand for the provider's resources: a type checker would read all of its 2,100 modules,
        also for programs that use only ``Cluster``.
        """
else:
    from cdktf_cdktf_provider_aws.autoscaling_group import AutoscalingGroup
    from cdktf_cdktf_provider_aws.cloudwatch_log_group import CloudwatchLogGroup
    from cdktf_cdktf_provider_aws.data_aws_iam_instance_profile import DataAwsIamInstanceProfile
    from cdktf_cdktf_provider_aws.data_aws_s3_object import DataAwsS3Object
    from cdktf_cdktf_provider_aws.data_aws_subnet import DataAwsSubnet
    from cdktf_cdktf_provider_aws.data_aws_vpc import DataAwsVpc
    from cdktf_cdktf_provider_aws.default_security_group import DefaultSecurityGroup
    from cdktf_cdktf_provider_aws.egress_only_internet_gateway import EgressOnlyInternetGateway
    from cdktf_cdktf_provider_aws.eip import Eip
    from cdktf_cdktf_provider_aws.flow_log import FlowLog
    from cdktf_cdktf_provider_aws.iam_instance_profile import IamInstanceProfile
    from cdktf_cdktf_provider_aws.iam_policy import IamPolicy
    from cdktf_cdktf_provider_aws.iam_role import IamRole
    from cdktf_cdktf_provider_aws.iam_role_policy import IamRolePolicy
    from cdktf_cdktf_provider_aws.internet_gateway import InternetGateway
    from cdktf_cdktf_provider_aws.launch_template import LaunchTemplate
    from cdktf_cdktf_provider_aws.nat_gateway import NatGateway
    from cdktf_cdktf_provider_aws.placement_group import PlacementGroup
    from cdktf_cdktf_provider_aws.provider import AwsProvider
    from cdktf_cdktf_provider_aws.route import Route
    from cdktf_cdktf_provider_aws.route_table import RouteTable
    from cdktf_cdktf_provider_aws.route_table_association import RouteTableAssociation
    from cdktf_cdktf_provider_aws.s3_bucket import S3Bucket
    from cdktf_cdktf_provider_aws.s3_bucket_ownership_controls import S3BucketOwnershipControls
    from cdktf_cdktf_provider_aws.s3_bucket_policy import S3BucketPolicy
    from cdktf_cdktf_provider_aws.s3_bucket_public_access_block import S3BucketPublicAccessBlock
    from cdktf_cdktf_provider_aws.s3_bucket_server_side_encryption_configuration import (
        S3BucketServerSideEncryptionConfigurationA,
    )
    from cdktf_cdktf_provider_aws.s3_bucket_versioning import S3BucketVersioningA
    from cdktf_cdktf_provider_aws.s3_object import S3Object
    from cdktf_cdktf_provider_aws.secretsmanager_secret import SecretsmanagerSecret
    from cdktf_cdktf_provider_aws.security_group import SecurityGroup
    from cdktf_cdktf_provider_aws.sns_topic import SnsTopic
    from cdktf_cdktf_provider_aws.sns_topic_subscription import SnsTopicSubscription
    from cdktf_cdktf_provider_aws.subnet import Subnet
    from cdktf_cdktf_provider_aws.vpc import Vpc
    from cdktf_cdktf_provider_aws.vpc_endpoint import VpcEndpoint
    from cdktf_cdktf_provider_aws.vpc_security_group_egress_rule import VpcSecurityGroupEgressRule
    from cdktf_cdktf_provider_aws.vpc_security_group_ingress_rule import VpcSecurityGroupIngressRule

__all__ = [
    "App",
    "Construct",
    "Fn",
    "JSIIError",
    "LocalBackend",
    "Postcondition",
    "S3Backend",
    "TerraformElement",
    "TerraformOutput",
    "TerraformResourceLifecycle",
    "TerraformStack",
    "Token",
    "at",
    "literal",
]

#: Context under which every stack is synthesised, by whatever program: it decides how addresses
#: are spelled.
APP_CONTEXT = {"excludeStackIdFromLogicalIds": "true", "allowSepCharsInLogicalIds": "true"}

#: The provider's exact version: the bindings are made for it and the lock file holds its checksums.
PROVIDER_SOURCE = "hashicorp/aws"
PROVIDER_VERSION = "5.100.0"
REQUIRED_TERRAFORM = ">= 1.11.0"


def at(name: str, resource: TerraformElement) -> None:
    """Give a resource the address ``<type>.<name>``: readable in a plan, and the same whatever
    construct holds it.
    """
    resource.override_logical_id(name)


def literal(text: str) -> str:
    """Escape text so that Terraform takes ``${`` and ``%{`` in it as they stand."""
    return text.replace("${", "$${").replace("%{", "%%{")


_ = terradask_modules.bindings
