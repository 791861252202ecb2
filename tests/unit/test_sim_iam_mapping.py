"""Operations become the permissions that AWS asks for; the pages are named where they say so."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping import context_of, needs_of
from terradask_simulator.aws.iam.operation import read_operation
from terradask_simulator.aws.iam.world import TemplateData

ACCOUNT, REGION = "123456789012", "us-east-1"
EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}:"


@dataclass
class SmallWorld:
    """Resources as a test names them."""

    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    groups: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    key: str = ""
    partition: str = "aws"
    account: str = ACCOUNT
    region: str = REGION

    def ec2_tags(self, resource_id):
        return self.tags.get(resource_id, {})

    def vpc_of(self, resource_id):
        return "vpc-1" if resource_id.startswith(("subnet-", "sg-")) else ""

    def related(self, resource_id):
        return {"rtbassoc-1": ("rtb-1", "subnet-1"), "sgr-1": ("sg-1",)}.get(resource_id, ())

    def template(self, name_or_id, version):
        return TemplateData(name_or_id, self.templates[name_or_id]) if name_or_id in self.templates else None

    def template_id(self, name):
        return "lt-1" if name == "host" else ""

    def group(self, name):
        return self.groups.get(name)

    def group_of_instance(self, instance_id):
        return self.members.get(instance_id, "")

    def secret(self, name_or_arn):
        return self.secrets.get(name_or_arn)

    def identity(self, kind, name):
        return (f"arn:aws:iam::{ACCOUNT}:{kind}/{name}", {}) if name.startswith("there") else None

    def role_of_profile(self, name_or_arn):
        return f"arn:aws:iam::{ACCOUNT}:role/{name_or_arn.rpartition('/')[2]}"

    def boundary_of(self, kind, name):
        return "arn:aws:iam::123456789012:policy/edge" if name == "there-bounded" else ""

    def resource_policy(self, action, resource):
        return None

    def key_of(self, resource, named, *, new):
        return self.key

    def log_group_tags(self, name):
        return {"terradask:workspace": "a"}

    def has_object(self, bucket, key):
        return f"{bucket}/{key}" in self.objects


def signed(service, **environ):
    header = f"AWS4-HMAC-SHA256 Credential=AKIA/20261120/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "QUERY_STRING": "", "HTTP_AUTHORIZATION": header, **environ}


def query(service, action, **parameters):
    body = urlencode({"Action": action, **{name.replace("__", "."): value for name, value in parameters.items()}}).encode()
    return read_operation(signed(service, CONTENT_TYPE="application/x-www-form-urlencoded; charset=utf-8"), body)


def call(service, target, **parameters):
    return read_operation(signed(service, HTTP_X_AMZ_TARGET=f"X.{target}"), json.dumps(parameters).encode())


def rest(method, path, string="", body=b"", **headers):
    more = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return read_operation(signed("s3", REQUEST_METHOD=method, PATH_INFO=path, QUERY_STRING=string, **more), body)


def asked(operation, world=None):
    """Return pairs of action and resource, short, and assert that AWS knows each action."""
    needs = needs_of(operation, world or SmallWorld())
    assert [need.action for need in needs if not reference.is_known(need.action)] == []
    return sorted((need.action, need.resource.replace(EC2, "")) for need in needs)


def context(operation, world=None, number=0):
    return context_of(needs_of(operation, world or SmallWorld())[number], {})


def test_an_action_without_resources():
    assert asked(query("ec2", "DescribeInstances", Filter__1__Name="x")) == [("ec2:DescribeInstances", "*")]
    assert asked(query("autoscaling", "DescribeAutoScalingGroups", AutoScalingGroupNames__member__1="g")) == [
        ("autoscaling:DescribeAutoScalingGroups", "*")
    ]


def test_named_resources_with_their_tags():
    world = SmallWorld(tags={"i-1": {"terradask:workspace": "a"}})
    operation = query("ec2", "TerminateInstances", InstanceId__1="i-1", InstanceId__2="i-2")
    assert asked(operation, world) == [("ec2:TerminateInstances", "instance/i-1"), ("ec2:TerminateInstances", "instance/i-2")]
    assert context(operation, world) == {
        "aws:ResourceTag/terradask:workspace": ("a",),
        "ec2:ResourceTag/terradask:workspace": ("a",),
    }
    assert context(operation, world, 1) == {}


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
def test_creating_with_tags_needs_the_right_to_tag():
    tags = {
        "TagSpecification__1__ResourceType": "subnet",
        "TagSpecification__1__Tag__1__Key": "k",
        "TagSpecification__1__Tag__1__Value": "v",
    }
    operation = query("ec2", "CreateSubnet", VpcId="vpc-1", **tags)
    assert asked(operation) == [("ec2:CreateSubnet", "subnet/*"), ("ec2:CreateSubnet", "vpc/vpc-1"), ("ec2:CreateTags", "subnet/*")]
    needs = {(need.action, need.kind): context_of(need, {}) for need in needs_of(operation, SmallWorld())}
    asked_tags = {"aws:RequestTag/k": ("v",), "aws:TagKeys": ("k",)}
    assert needs["ec2:CreateTags", "subnet"] == {**asked_tags, "ec2:CreateAction": ("CreateSubnet",)}
    assert needs["ec2:CreateSubnet", "subnet"].items() >= asked_tags.items()
    assert not needs["ec2:CreateSubnet", "vpc"].keys() & asked_tags.keys()


@pytest.mark.parametrize(
    ("kind", "operation", "parameters", "besides"),
    [
        ("launch-template", "CreateLaunchTemplate", {"LaunchTemplateName": "new"}, []),
        ("security-group", "CreateSecurityGroup", {"GroupName": "new", "VpcId": "vpc-1"}, ["vpc/vpc-1"]),
        ("security-group-rule", "AuthorizeSecurityGroupIngress", {"GroupId": "sg-1"}, ["security-group/sg-1"]),
        ("security-group-rule", "AuthorizeSecurityGroupEgress", {"GroupId": "sg-1"}, ["security-group/sg-1"]),
    ],
)
def test_tags_at_birth_belong_to_what_is_made_alone(kind, operation, parameters, besides):
    tag = {"ResourceType": kind, "Tag__1__Key": "k", "Tag__1__Value": "v"}
    made = query("ec2", operation, **parameters, **{f"TagSpecification__1__{name}": value for name, value in tag.items()})
    world = SmallWorld(tags={"sg-1": {"has": "b"}, "vpc-1": {"has": "b"}})
    action = f"ec2:{operation}"
    assert asked(made, world) == sorted([("ec2:CreateTags", f"{kind}/*"), *((action, one) for one in (f"{kind}/*", *besides))])
    for need in needs_of(made, world):
        found = context_of(need, {})
        assert found.get("aws:RequestTag/k") == (("v",) if need.kind == kind else None)
        assert found.get("aws:ResourceTag/has") == (None if need.kind == kind else ("b",))
        assert found.get("ec2:CreateAction") == ((operation,) if need.action == "ec2:CreateTags" else None)


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteTags.html: without tags, all of them are taken away.
def test_taking_every_tag_away_names_none():
    world = SmallWorld(tags={"sg-1": {"w": "a"}})
    assert context(query("ec2", "DeleteTags", ResourceId__1="sg-1", Tag__1__Key="k"), world)["aws:TagKeys"] == ("k",)
    assert "aws:TagKeys" not in context(query("ec2", "DeleteTags", ResourceId__1="sg-1"), world)


@pytest.mark.parametrize(
    ("action", "parameters", "expected"),
    [
        ("CreateVpc", {"CidrBlock": "10.0.0.0/16"}, ["vpc/*"]),
        ("CreateNatGateway", {"SubnetId": "subnet-1", "AllocationId": "eipalloc-1"},
         ["elastic-ip/eipalloc-1", "natgateway/*", "subnet/subnet-1"]),
        ("DeleteNatGateway", {"NatGatewayId": "nat-1"}, ["natgateway/nat-1"]),
        ("DisassociateRouteTable", {"AssociationId": "rtbassoc-1"}, ["route-table/rtb-1", "subnet/subnet-1"]),
        ("AttachInternetGateway", {"VpcId": "vpc-1", "InternetGatewayId": "igw-1"}, ["internet-gateway/igw-1", "vpc/vpc-1"]),
        ("AuthorizeSecurityGroupIngress", {"GroupId": "sg-1"}, ["security-group/sg-1"]),
        ("RevokeSecurityGroupEgress", {"GroupId": "sg-1", "SecurityGroupRuleId__1": "sgr-1"}, ["security-group/sg-1"]),
        ("ModifySecurityGroupRules", {"GroupId": "sg-1", "SecurityGroupRule__1__SecurityGroupRuleId": "sgr-1"},
         ["security-group-rule/sgr-1", "security-group/sg-1"]),
        ("CreateVpcEndpoint", {"VpcId": "vpc-1", "RouteTableId__1": "rtb-1"}, ["route-table/rtb-1", "vpc-endpoint/*", "vpc/vpc-1"]),
        ("DeleteVpcEndpoints", {"VpcEndpointId__1": "vpce-1"}, ["vpc-endpoint/vpce-1"]),
        ("CreateLaunchTemplate", {"LaunchTemplateName": "new"}, ["launch-template/*"]),
        ("CreateLaunchTemplateVersion", {"LaunchTemplateName": "host"}, ["launch-template/lt-1"]),
        ("DeleteLaunchTemplate", {"LaunchTemplateId": "lt-1"}, ["launch-template/lt-1"]),
        ("ModifySubnetAttribute", {"SubnetId": "subnet-1"}, ["subnet/subnet-1"]),
        ("CreatePlacementGroup", {"GroupName": "a.b", "Strategy": "cluster"}, ["placement-group/*"]),
        ("DeletePlacementGroup", {"GroupName": "a.b"}, ["placement-group/a.b"]),
        ("ReleaseAddress", {"AllocationId": "eipalloc-1"}, ["elastic-ip/eipalloc-1"]),
    ],
)  # fmt: skip
def test_what_ec2s_operations_work_on(action, parameters, expected):
    assert asked(query("ec2", action, **parameters)) == [(f"ec2:{action}", resource) for resource in expected]


def test_flow_logs_watch_what_is_named_and_pass_a_role():
    role = f"arn:aws:iam::{ACCOUNT}:role/flow"
    operation = query("ec2", "CreateFlowLogs", ResourceType="VPC", ResourceId__1="vpc-1", DeliverLogsPermissionArn=role)
    assert asked(operation) == [("ec2:CreateFlowLogs", "vpc-flow-log/*"), ("ec2:CreateFlowLogs", "vpc/vpc-1"), ("iam:PassRole", role)]
    assert context(operation, number=-1) == {"iam:PassedToService": ("vpc-flow-logs.amazonaws.com",)}


def test_an_interface_endpoint_with_the_services_own_names():
    endpoint = {"VpcId": "vpc-1", "VpcEndpointType": "Interface", "SubnetId__1": "subnet-1", "SecurityGroupId__1": "sg-1"}
    zone = ("route53:AssociateVPCWithHostedZone", "arn:aws:route53:::hostedzone/*")
    assert zone in asked(query("ec2", "CreateVpcEndpoint", PrivateDnsEnabled="true", **endpoint))
    assert zone not in asked(query("ec2", "CreateVpcEndpoint", PrivateDnsEnabled="false", **endpoint))


def test_tagging_what_exists():
    world = SmallWorld(tags={"vol-1": {"owner": "a"}})
    operation = query("ec2", "CreateTags", ResourceId__1="vol-1", Tag__1__Key="k", Tag__1__Value="v")
    assert asked(operation, world) == [("ec2:CreateTags", "volume/vol-1")]
    expected = {"aws:RequestTag/k": ("v",), "aws:TagKeys": ("k",), "aws:ResourceTag/owner": ("a",), "ec2:ResourceTag/owner": ("a",)}
    assert context(operation, world) == expected


TEMPLATE = {
    "ImageId": "ami-1",
    "InstanceType": "m7i.large",
    "IamInstanceProfile": {"Arn": f"arn:aws:iam::{ACCOUNT}:instance-profile/worker"},
    "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}],
    "MetadataOptions": {"HttpTokens": "required"},
    "TagSpecifications": [{"ResourceType": kind, "Tags": [{"Key": "w", "Value": "a"}]} for kind in ("instance", "volume")],
}
LAUNCH = [
    ("ec2:CreateTags", "instance/*"),
    ("ec2:CreateTags", "volume/*"),
    ("ec2:RunInstances", "arn:aws:ec2:us-east-1::image/ami-1"),
    ("ec2:RunInstances", "instance/*"),
    ("ec2:RunInstances", "launch-template/lt-1"),
    ("ec2:RunInstances", "network-interface/*"),
    ("ec2:RunInstances", "security-group/sg-1"),
    ("ec2:RunInstances", "subnet/subnet-1"),
    ("ec2:RunInstances", "volume/*"),
    ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/worker"),
]


# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/use-launch-templates-to-control-launching-instances.html
def test_launching_by_a_template():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    operation = query("ec2", "RunInstances", LaunchTemplate__LaunchTemplateId="lt-1", LaunchTemplate__Version="1", SubnetId="subnet-1")
    assert asked(operation, world) == LAUNCH
    found = {(need.action, need.kind): context_of(need, {}) for need in needs_of(operation, world)}
    instance = found["ec2:RunInstances", "instance"]
    assert instance["ec2:IsLaunchTemplateResource"] == ("true",)
    assert instance["ec2:LaunchTemplate"] == (f"{EC2}launch-template/lt-1",)
    assert instance["ec2:MetadataHttpTokens"] == ("required",)
    assert instance["aws:RequestTag/w"] == ("a",)
    assert found["ec2:RunInstances", "subnet"]["ec2:IsLaunchTemplateResource"] == ("false",)
    assert found["ec2:CreateTags", "volume"]["ec2:CreateAction"] == ("RunInstances",)
    assert found["iam:PassRole", "role"] == {"iam:PassedToService": ("ec2.amazonaws.com",)}


GROUP = f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:autoScalingGroup:"
MIXED = "MixedInstancesPolicy__LaunchTemplate__"


# https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html
def test_a_group_on_a_template_needs_what_its_launches_need():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    operation = query(
        "autoscaling",
        "CreateAutoScalingGroup",
        AutoScalingGroupName="a-g",
        MaxSize="4",
        VPCZoneIdentifier="subnet-1",
        Tags__member__1__Key="w",
        Tags__member__1__Value="a",
        **{
            f"{MIXED}LaunchTemplateSpecification__LaunchTemplateId": "lt-1",
            f"{MIXED}LaunchTemplateSpecification__Version": "3",
            f"{MIXED}Overrides__member__1__InstanceType": "m7i.large",
        },
    )
    assert asked(operation, world) == [("autoscaling:CreateAutoScalingGroup", f"{GROUP}*:autoScalingGroupName/a-g"), *LAUNCH]
    needs = needs_of(operation, world)
    assert context_of(needs[0], {}) == {
        "autoscaling:InstanceTypes": ("m7i.large",),
        "autoscaling:LaunchTemplateVersionSpecified": ("true",),
        "autoscaling:MaxSize": ("4",),
        "autoscaling:ResourceTag/w": ("a",),
        "autoscaling:VPCZoneIdentifiers": ("subnet-1",),
        "aws:RequestTag/w": ("a",),
        "aws:ResourceTag/w": ("a",),
        "aws:TagKeys": ("w",),
    }
    assert {need.refusal for need in needs[1:]} == {"You are not authorized to use launch template: lt-1"}


def test_a_group_in_a_placement_group_launches_there():
    world = SmallWorld(templates={"lt-1": TEMPLATE})
    asking = {"AutoScalingGroupName": "a-g", f"{MIXED}LaunchTemplateSpecification__LaunchTemplateId": "lt-1"}
    plain = asked(query("autoscaling", "UpdateAutoScalingGroup", **asking), world)
    placed = asked(query("autoscaling", "UpdateAutoScalingGroup", PlacementGroup="a.b", **asking), world)
    assert set(placed) - set(plain) == {("ec2:RunInstances", "placement-group/a.b")}


# https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
@pytest.mark.parametrize(("version", "exact"), [("3", "true"), ("$Latest", "false"), ("$Default", "false")])
def test_whether_a_template_is_named_with_its_version(version, exact):
    operation = query(
        "autoscaling",
        "UpdateAutoScalingGroup",
        AutoScalingGroupName="g",
        LaunchTemplate__LaunchTemplateId="lt-9",
        LaunchTemplate__Version=version,
    )
    assert context(operation)["autoscaling:LaunchTemplateVersionSpecified"] == (exact,)


def test_numbers_of_a_group_need_the_group_alone():
    arn = f"{GROUP}4f:autoScalingGroupName/g"
    world = SmallWorld(groups={"g": (arn, {"w": "a"})}, members={"i-1": "g"})
    for operation in (
        query("autoscaling", "UpdateAutoScalingGroup", AutoScalingGroupName="g", MaxSize="5"),
        query("autoscaling", "SetDesiredCapacity", AutoScalingGroupName="g", DesiredCapacity="5"),
        query("autoscaling", "TerminateInstanceInAutoScalingGroup", InstanceId="i-1", ShouldDecrementDesiredCapacity="true"),
        query("autoscaling", "CreateOrUpdateTags", Tags__member__1__ResourceId="g", Tags__member__1__Key="k", Tags__member__1__Value="v"),
    ):
        assert asked(operation, world) == [(f"autoscaling:{operation.name}", arn)]
        assert context(operation, world)["aws:ResourceTag/w"] == ("a",)


def test_an_instance_of_no_group_is_no_groups():
    operation = query("autoscaling", "TerminateInstanceInAutoScalingGroup", InstanceId="i-9")
    assert asked(operation) == [("autoscaling:TerminateInstanceInAutoScalingGroup", f"{GROUP}*:autoScalingGroupName/*")]


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
@pytest.mark.parametrize(
    ("method", "path", "string", "expected"),
    [
        ("GET", "/", "", [("ListAllMyBuckets", "*")]),
        ("PUT", "/b", "", [("CreateBucket", "b")]),
        ("HEAD", "/b", "", [("ListBucket", "b")]),
        ("GET", "/b", "list-type=2&prefix=a", [("ListBucket", "b")]),
        ("GET", "/b", "versions&prefix=a", [("ListBucketVersions", "b")]),
        ("GET", "/b", "encryption", [("GetEncryptionConfiguration", "b")]),
        ("PUT", "/b", "lifecycle", [("PutLifecycleConfiguration", "b")]),
        ("DELETE", "/b", "publicAccessBlock", [("PutBucketPublicAccessBlock", "b")]),
        ("DELETE", "/b", "policy", [("DeleteBucketPolicy", "b")]),
        ("GET", "/b/k", "", [("GetObject", "b/k")]),
        ("HEAD", "/b/k", "", [("GetObject", "b/k")]),
        ("GET", "/b/k", "versionId=1", [("GetObjectVersion", "b/k")]),
        ("GET", "/b/k", "tagging", [("GetObjectTagging", "b/k")]),
        ("PUT", "/b/k/l", "", [("PutObject", "b/k/l")]),
        ("DELETE", "/b/k", "", [("DeleteObject", "b/k")]),
        ("DELETE", "/b/k", "versionId=1", [("DeleteObjectVersion", "b/k")]),
        ("POST", "/b/k", "uploads", [("PutObject", "b/k")]),
        ("PUT", "/b/k", "partNumber=1&uploadId=x", [("PutObject", "b/k")]),
        ("POST", "/b/k", "uploadId=x", [("PutObject", "b/k")]),
        ("DELETE", "/b/k", "uploadId=x", [("AbortMultipartUpload", "b/k")]),
        ("GET", "/b/k", "uploadId=x", [("ListMultipartUploadParts", "b/k")]),
        ("GET", "/b/k", "attributes", [("GetObject", "b/k"), ("GetObjectAttributes", "b/k")]),
    ],
)
def test_s3(method, path, string, expected):
    found = asked(rest(method, path, string), SmallWorld(objects={"b/k"}))
    assert found == [(f"s3:{action}", resource if resource == "*" else f"arn:aws:s3:::{resource}") for action, resource in expected]


def test_every_sub_resource_of_s3_is_an_action_that_aws_knows():
    from terradask_simulator.aws.iam.mapping.s3 import _BUCKET, _OBJECT

    for part in _BUCKET:
        asked(rest("GET", "/b", part))
        if part not in ("location", "policyStatus"):
            asked(rest("PUT", "/b", part))
            asked(rest("DELETE", "/b", part))
    for part in _OBJECT:
        asked(rest("GET", "/b/k", part))


# https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html: 404 for those who may list, 403 for others.
def test_who_may_not_list_is_not_told_that_an_object_is_missing():
    assert asked(rest("GET", "/b/gone")) == [("s3:GetObject", "arn:aws:s3:::b/gone"), ("s3:ListBucket", "arn:aws:s3:::b")]


def test_s3_condition_keys():
    assert context(rest("GET", "/b", "list-type=2&prefix=a%2F&delimiter=%2F")) == {"s3:prefix": ("a/",), "s3:delimiter": ("/",)}
    assert context(rest("PUT", "/b/k", x_amz_server_side_encryption="aws:kms"))["s3:x-amz-server-side-encryption"] == ("aws:kms",)


def test_tagged_copied_and_deleted_objects():
    tagged = asked(rest("PUT", "/b/k", x_amz_tagging="a=1"))
    assert tagged == [("s3:PutObject", "arn:aws:s3:::b/k"), ("s3:PutObjectTagging", "arn:aws:s3:::b/k")]
    assert asked(rest("PUT", "/b/k", x_amz_copy_source="/from/a%20b")) == [
        ("s3:GetObject", "arn:aws:s3:::from/a b"),
        ("s3:PutObject", "arn:aws:s3:::b/k"),
    ]
    body = b'<Delete xmlns="x"><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>1</VersionId></Object></Delete>'
    expected = [("s3:DeleteObject", "arn:aws:s3:::b/a"), ("s3:DeleteObjectVersion", "arn:aws:s3:::b/b")]
    assert asked(rest("POST", "/b", "delete", body)) == expected


SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:"


# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html: with tags, secretsmanager:TagResource as well.
def test_secrets():
    create = call("secretsmanager", "CreateSecret", Name="t/a/c", Tags=[{"Key": "w", "Value": "a"}])
    assert asked(create) == [
        ("secretsmanager:CreateSecret", f"{SECRET}t/a/c-??????"),
        ("secretsmanager:TagResource", f"{SECRET}t/a/c-??????"),
    ]
    assert context(create)["aws:RequestTag/w"] == ("a",)
    world = SmallWorld(secrets={"t/a/c": (f"{SECRET}t/a/c-AbCdEf", {"w": "a"})})
    read = call("secretsmanager", "GetSecretValue", SecretId="t/a/c", VersionId="1")
    assert asked(read, world) == [("secretsmanager:GetSecretValue", f"{SECRET}t/a/c-AbCdEf")]
    assert context(read, world) == {
        "aws:ResourceTag/w": ("a",),
        "secretsmanager:ResourceTag/w": ("a",),
        "secretsmanager:SecretId": ("t/a/c",),
        "secretsmanager:VersionId": ("1",),
    }
    assert asked(call("secretsmanager", "ListSecrets")) == [("secretsmanager:ListSecrets", "*")]


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html#require-sse-kms
def test_a_customers_key_asks_the_caller():
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1"
    world = SmallWorld(objects={"b/k"}, key=key)
    assert asked(rest("GET", "/b/k"), world) == [("kms:Decrypt", key), ("s3:GetObject", "arn:aws:s3:::b/k")]
    assert asked(rest("PUT", "/b/k"), world) == [("kms:GenerateDataKey", key), ("s3:PutObject", "arn:aws:s3:::b/k")]
    assert [action for action, _ in asked(rest("POST", "/b/k", "uploadId=1"), world)] == [
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "s3:PutObject",
    ]
    assert context(rest("GET", "/b/k"), world, 1)["kms:ViaService"] == ("s3.us-east-1.amazonaws.com",)


# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html
def test_parameters():
    own = call("ssm", "GetParameters", Names=["/a", "b"])
    assert asked(own) == [("ssm:GetParameters", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/{name}") for name in "ab"]
    public = call("ssm", "GetParameter", Name="/aws/service/ami/x")
    assert asked(public) == [("ssm:GetParameter", f"arn:aws:ssm:{REGION}::parameter/aws/service/ami/x")]


LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:"


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
def test_logs():
    assert asked(call("logs", "CreateLogStream", logGroupName="/t/a", logStreamName="s")) == [
        ("logs:CreateLogStream", f"{LOGS}/t/a:log-stream:s")
    ]
    create = call("logs", "CreateLogGroup", logGroupName="/t/a", tags={"w": "a"})
    assert asked(create) == [("logs:CreateLogGroup", f"{LOGS}/t/a:log-stream:"), ("logs:TagResource", f"{LOGS}/t/a")]
    assert asked(call("logs", "ListTagsForResource", resourceArn=f"{LOGS}/t/a")) == [("logs:ListTagsForResource", f"{LOGS}/t/a")]
    assert asked(call("logs", "DescribeLogGroups")) == [("logs:DescribeLogGroups", "*")]


IAM = f"arn:aws:iam::{ACCOUNT}:"


def test_roles_and_profiles():
    tags = {"Tags__member__1__Key": "w", "Tags__member__1__Value": "a"}
    create = query("iam", "CreateRole", RoleName="new", Path="/t/", PermissionsBoundary=f"{IAM}policy/edge", **tags)
    assert asked(create) == [("iam:CreateRole", f"{IAM}role/t/new"), ("iam:TagRole", f"{IAM}role/t/new")]
    assert context(create) == {"aws:RequestTag/w": ("a",), "aws:TagKeys": ("w",), "iam:PermissionsBoundary": (f"{IAM}policy/edge",)}
    add = query("iam", "AddRoleToInstanceProfile", InstanceProfileName="p", RoleName="there")
    assert asked(add) == [("iam:AddRoleToInstanceProfile", f"{IAM}instance-profile/p"), ("iam:PassRole", f"{IAM}role/there")]
    attach = query("iam", "AttachRolePolicy", RoleName="there", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    assert context(attach)["iam:PolicyARN"] == ("arn:aws:iam::aws:policy/AdministratorAccess",)
    put = query("iam", "PutRolePolicy", RoleName="there-bounded", PolicyName="x")
    assert context(put) == {"iam:PermissionsBoundary": (f"{IAM}policy/edge",)}


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
def test_managed_policies_lie_under_their_path():
    tags = {"Tags__member__1__Key": "w", "Tags__member__1__Value": "a"}
    create = query("iam", "CreatePolicy", PolicyName="hosts", Path="/t/a/", PolicyDocument="{}", **tags)
    assert asked(create) == [("iam:CreatePolicy", f"{IAM}policy/t/a/hosts"), ("iam:TagPolicy", f"{IAM}policy/t/a/hosts")]
    assert context(create) == {"aws:RequestTag/w": ("a",), "aws:TagKeys": ("w",)}
    arn = f"{IAM}policy/t/a/hosts"
    for name in ("GetPolicy", "GetPolicyVersion", "ListPolicyVersions", "CreatePolicyVersion", "DeletePolicyVersion", "DeletePolicy"):
        assert asked(query("iam", name, PolicyArn=arn, VersionId="v1")) == [(f"iam:{name}", arn)]
    untag = query("iam", "UntagPolicy", PolicyArn=arn, TagKeys__member__1="w")
    assert asked(untag) == [("iam:UntagPolicy", arn)]
    assert context(untag) == {"aws:TagKeys": ("w",)}


# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html
def test_the_boundary_of_a_role_is_the_one_that_it_gets_or_else_has():
    other = f"{IAM}policy/other"
    for name, parameters, boundary in (
        ("PutRolePermissionsBoundary", {"PermissionsBoundary": other}, other),
        ("DeleteRolePermissionsBoundary", {}, f"{IAM}policy/edge"),
        ("DeleteRolePolicy", {"PolicyName": "x"}, f"{IAM}policy/edge"),
        ("DeleteRole", {}, f"{IAM}policy/edge"),
    ):
        operation = query("iam", name, RoleName="there-bounded", **parameters)
        assert asked(operation) == [(f"iam:{name}", f"{IAM}role/there-bounded")]
        assert context(operation) == {"iam:PermissionsBoundary": (boundary,)}
    # One without a boundary gives the key no value, so that a condition on it doesn't hold.
    assert context(query("iam", "PutRolePolicy", RoleName="there", PolicyName="x")) == {}


# https://docs.aws.amazon.com/IAM/latest/UserGuide/create-service-linked-role.html
def test_service_linked_roles():
    operation = query("iam", "CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert asked(operation) == [("iam:CreateServiceLinkedRole", f"{IAM}role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")]
    assert context(operation) == {"iam:AWSServiceName": ("spot.amazonaws.com",)}


# https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html: no permission is needed.
def test_sts():
    assert asked(query("sts", "GetCallerIdentity")) == []
    assume = query("sts", "AssumeRole", RoleArn=f"{IAM}role/there", RoleSessionName="s", ExternalId="e")
    assert asked(assume) == [("sts:AssumeRole", f"{IAM}role/there")]
    assert context(assume) == {"sts:RoleSessionName": ("s",), "sts:ExternalId": ("e",)}


def test_services_without_a_mapping_of_their_own():
    assert asked(call("tagging", "GetResources")) == [("tag:GetResources", "*")]
    assert asked(call("pricing", "GetProducts")) == [("pricing:GetProducts", "*")]
    assert asked(call("servicequotas", "ListServiceQuotas", ServiceCode="ec2")) == [("servicequotas:ListServiceQuotas", "*")]
    quota = f"arn:aws:servicequotas:{REGION}:{ACCOUNT}:ec2/L-1"
    limits = call("servicequotas", "GetServiceQuota", ServiceCode="autoscaling", QuotaCode="L-1")
    assert [action for action, _ in asked(limits)] == ["autoscaling:DescribeAccountLimits", "servicequotas:GetServiceQuota"]
    raised = call("servicequotas", "RequestServiceQuotaIncrease", ServiceCode="ec2", QuotaCode="L-1", DesiredValue=9)
    assert asked(raised) == [("servicequotas:RequestServiceQuotaIncrease", quota)]
    assert asked(call("kms", "DescribeKey", KeyId=f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1")) == [
        ("kms:DescribeKey", f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1")
    ]


def test_condition_keys_that_aws_does_not_send_are_left_out():
    assert reference.carries("autoscaling:SetDesiredCapacity", "autoScalingGroup", "aws:ResourceTag/x")
    assert not reference.carries("autoscaling:DescribeAutoScalingGroups", "", "aws:ResourceTag/x")
    assert not reference.carries("ec2:RunInstances", "subnet", "aws:RequestTag/x")
    assert not reference.carries("s3:GetObject", "object", "s3:prefix")


def test_a_session_needs_the_host_and_the_document():
    needs = needs_of(call("ssm", "StartSession", Target="i-1", DocumentName="AWS-StartPortForwardingSession"), SmallWorld())
    assert [(need.action, need.resource) for need in needs] == [
        ("ssm:StartSession", f"{EC2}instance/i-1"),
        ("ssm:StartSession", f"arn:aws:ssm:{REGION}::document/AWS-StartPortForwardingSession"),
    ]
    assert context_of(needs[0], {})["ssm:SessionDocumentAccessCheck"] == ("true",)
    shell = needs_of(call("ssm", "StartSession", Target="i-1"), SmallWorld())
    assert shell[1].resource == f"arn:aws:ssm:{REGION}:{ACCOUNT}:document/SSM-SessionManagerRunShell"
