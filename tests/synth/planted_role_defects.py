"""Defects of roles and policies for check P6, and how each is planted into the network."""

from __future__ import annotations

import json

from .planting import (
    BOUNDARY,
    EVERY_GROUP,
    OURS,
    PASSED,
    ROLE,
    VOLUMES,
    Plant,
    adds,
    grants,
    opens_bucket,
    trusts,
)

ROLE_DEFECTS: dict[str, Plant] = {
    "channels of Session Manager in every region": grants(
        Action="ssmmessages:OpenDataChannel", Resource="*"
    ),
    "sessions to any host": grants(Action="ssm:StartSession", Resource="*"),
    "PassRole on everything": grants(Action="iam:PassRole", Resource="*"),
    "PassRole on everything, to EC2": grants(Action="iam:PassRole", Resource="*", Condition=PASSED),
    "PassRole by pattern": grants(
        Action="iam:PassRole",
        Resource="arn:aws:iam::123456789012:role/terradask-*",
        Condition=PASSED,
    ),
    "PassRole to any service": grants(Action="iam:PassRole", Resource=ROLE),
    "PassRole by a pattern of actions": grants(Action="iam:Pass*", Resource="*"),
    "everything": grants(Action="*", Resource="*"),
    "all of S3": grants(Action="s3:*", Resource="arn:aws:s3:::lake/*"),
    "everything but": grants(NotAction="iam:*", Resource="*"),
    "everywhere but": grants(Action="s3:PutObject", NotResource="arn:aws:s3:::lake/*"),
    "ending anybody's instances": grants(Action="ec2:TerminateInstances", Resource="*"),
    "ending anybody's instances, by pattern": grants(Action="ec2:Term*", Resource="*"),
    "every group of the account": grants(
        Action="autoscaling:SetDesiredCapacity", Resource=EVERY_GROUP
    ),
    "a tag that may be absent": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource=EVERY_GROUP,
        Condition={"StringEqualsIfExists": OURS},
    ),
    "a tag of any value": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource=EVERY_GROUP,
        Condition={"StringLike": {"aws:ResourceTag/terradask:workspace": "*"}},
    ),
    "somebody else's tag": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource=EVERY_GROUP,
        Condition={"StringEquals": {"aws:ResourceTag/team": "a"}},
    ),
    "tagging anybody's volumes": grants(Action="ec2:CreateTags", Resource=VOLUMES),
    "tagging anybody's volumes as ours": grants(
        Action="ec2:CreateTags",
        Resource=VOLUMES,
        Condition={"StringEquals": {"aws:RequestTag/terradask:workspace": "default"}},
    ),
    "tagging anybody's groups as ours": grants(
        Action="autoscaling:CreateOrUpdateTags",
        Resource=EVERY_GROUP,
        Condition={"StringEquals": {"aws:RequestTag/terradask:workspace": "default"}},
    ),
    "tagging anything as ours": grants(
        Action="tag:TagResources",
        Resource="*",
        Condition={"StringEquals": {"aws:RequestTag/terradask:workspace": "default"}},
    ),
    "tagging anybody's secrets as ours": grants(
        Action="secretsmanager:TagResource",
        Resource="arn:aws:secretsmanager:us-east-1:123456789012:secret:*",
        Condition={"StringEquals": {"aws:RequestTag/terradask:workspace": "default"}},
    ),
    "taking anybody's tags": grants(Action="ec2:DeleteTags", Resource=VOLUMES),
    "a tag that all values may have, or none": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource=EVERY_GROUP,
        Condition={"ForAllValues:StringEquals": OURS},
    ),
    "every tag but ours": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource=EVERY_GROUP,
        Condition={"StringNotEquals": OURS},
    ),
    "no tag at all": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource=EVERY_GROUP,
        Condition={"Null": {"aws:ResourceTag/terradask:workspace": "false"}},
    ),
    "PassRole to two services": grants(
        Action="iam:PassRole",
        Resource=ROLE,
        Condition={
            "StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "lambda.amazonaws.com"]}
        },
    ),
    "PassRole to services by pattern": grants(
        Action="iam:PassRole",
        Resource=ROLE,
        Condition={"StringLike": {"iam:PassedToService": "*.amazonaws.com"}},
    ),
    "other rights as a default": grants(Action="iam:SetDefaultPolicyVersion", Resource=BOUNDARY),
    "writing into any bucket": grants(Action="s3:PutObject", Resource="arn:aws:s3:::*/x"),
    "reading any secret": grants(Action="secretsmanager:GetSecretValue", Resource="*"),
    "reading any secret, by pattern": grants(Action="secretsmanager:Get*", Resource="*"),
    "reading any parameter": grants(
        Action="ssm:GetParameter*", Resource="arn:aws:ssm:us-east-1:123456789012:parameter/*"
    ),
    "taking any role": grants(Action="sts:AssumeRole", Resource="*"),
    "rights that widen themselves": grants(Action="iam:PutRolePolicy", Resource=ROLE),
    "reading in every region": grants(Action="ec2:DescribeInstances", Resource="*"),
    "a policy inside the role": lambda stack: stack["resource"]["aws_iam_role"]["worker"].update(
        inline_policy=[
            {
                "name": "x",
                "policy": json.dumps(
                    {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
                ),
            }
        ]
    ),
    "a policy of AWS's": adds(
        "aws_iam_role_policy_attachment",
        policy_arn="arn:aws:iam::aws:policy/AdministratorAccess",
    ),
    "a policy of AWS's that may grow": adds(
        "aws_iam_role_policy_attachment",
        policy_arn="arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
    ),
    "a role for everybody": trusts(Principal="*", Action="sts:AssumeRole"),
    "a role for every account": trusts(Principal={"AWS": "*"}, Action="sts:AssumeRole"),
    "a role for every pipeline": trusts(
        Principal={"Federated": "arn:aws:iam::1:oidc-provider/token.actions.githubusercontent.com"},
        Action="sts:AssumeRoleWithWebIdentity",
    ),
    "a bucket for everybody": opens_bucket(
        Principal="*", Action="s3:GetObject", Resource="arn:aws:s3:::x/*"
    ),
    "a bucket for everybody but": opens_bucket(
        NotPrincipal={"AWS": ROLE}, Action="s3:GetObject", Resource="arn:aws:s3:::x/*"
    ),
    "a secret for everybody": adds(
        "aws_secretsmanager_secret",
        policy=json.dumps(
            {
                "Statement": {
                    "Effect": "Allow",
                    "Principal": "*",
                    "Action": "secretsmanager:GetSecretValue",
                    "Resource": "*",
                }
            }
        ),
    ),
    "a role without the others' boundary": lambda stack: stack["resource"]["aws_iam_role"][
        "worker"
    ].update(permissions_boundary=BOUNDARY),
    "a policy that only the apply will tell": lambda stack: stack["resource"][
        "aws_iam_role_policy"
    ]["worker"].update(policy="${data.aws_iam_policy_document.x.json}"),
}
