"""Who reads a private cluster's keys: the secret's policy as IAM evaluates it, and how refusals are
told.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from terradask._observe.documents import Descriptor
from terradask._observe.keys import check_key_access, check_may_change
from terradask.errors import AccessDenied, ClusterPrivate, InvalidInput
from terradask_modules.secret_policy import principal_of, private_policy
from terradask_simulator.aws.iam.documents import Policy
from terradask_simulator.aws.iam.evaluation import Policies, Request, evaluate
from terradask_stacks.settings import ClusterSettings

ACCOUNT = "123456789012"
IAM, STS = f"arn:aws:iam::{ACCOUNT}", f"arn:aws:sts::{ACCOUNT}"
SECRET = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:terradask/default/etl-aBcDeF"
HOSTS = [f"{IAM}:role/terradask-default-scheduler", f"{IAM}:role/terradask-default-worker"]
EVERYTHING = Policy.parse(
    '{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}', "Administrator"
)


@pytest.mark.parametrize(
    ("caller", "principal"),
    [
        (f"{IAM}:user/team/ada", f"{IAM}:user/team/ada"),
        (f"{STS}:assumed-role/data-science/ada@example.com", f"{IAM}:role/data-science"),
        (
            f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_x/ada",
            f"arn:aws-cn:iam::{ACCOUNT}:role/AWSReservedSSO_x",
        ),
        (f"{STS}:federated-user/ada", f"{STS}:federated-user/ada"),
        (f"{IAM}:root", f"{IAM}:root"),
    ],
)
def test_a_session_is_known_by_its_role_and_everybody_else_as_they_are(caller, principal):
    assert principal_of(caller) == principal


def allowed(principal_arn, *principals, action="GetSecretValue"):
    """Tell whether an administrator of this ARN gets past the secret's policy."""
    policy = Policy.parse(
        private_policy(principals, HOSTS, account=ACCOUNT, partition="aws"), "the secret's policy"
    )
    context = {"aws:PrincipalArn": (principal_arn,), "aws:PrincipalAccount": (ACCOUNT,)}
    request = Request(f"secretsmanager:{action}", SECRET, context, principal_arn)
    return evaluate(request, Policies(identity=(EVERYTHING,), resource=policy)).allowed


@pytest.mark.parametrize(
    ("who", "reads"),
    [
        (f"{IAM}:user/ada", True),
        (f"{IAM}:role/data-science", True),
        # As GetCallerIdentity leaves the path out, and IAM doesn't.
        (f"{IAM}:role/aws-reserved/sso.amazonaws.com/data-science", True),
        (HOSTS[0], True),
        (HOSTS[1], True),
        (f"{IAM}:root", True),
        (f"{IAM}:user/bob", False),
        (f"{IAM}:user/team/ada", False),
        (f"{IAM}:user/adam", False),
        (f"{IAM}:role/not-data-science", False),
        (f"{IAM}:role/data-science/other", False),
        (f"{IAM}:role/terradask-default-worker-2", False),
        ("arn:aws:iam::999999999999:user/ada", False),
    ],
)
def test_the_named_the_hosts_and_root_read_and_no_administrator_does(who, reads):
    named = (f"{IAM}:user/ada", f"{IAM}:role/data-science")
    assert allowed(who, *named) is reads
    assert allowed(who, *named, action="DescribeSecret")


@pytest.mark.parametrize(
    "action",
    [
        "DeleteResourcePolicy",
        "DeleteSecret",
        "PutResourcePolicy",
        "PutSecretValue",
        "ReplicateSecretToRegions",
        "RotateSecret",
        "TagResource",
        "UntagResource",
        "UpdateSecret",
        "UpdateSecretVersionStage",
    ],
)
def test_the_named_and_root_change_and_delete_the_secret(action):
    ada = f"{IAM}:user/ada"
    assert allowed(ada, ada, action=action)
    assert allowed(f"{IAM}:root", ada, action=action)
    assert not allowed(f"{IAM}:user/bob", ada, action=action)


@pytest.mark.parametrize(
    ("caller", "named"),
    [
        (f"{IAM}:user/team/ada", True),
        (f"{STS}:assumed-role/data-science/ada", True),
        (f"{IAM}:root", True),
        (f"{IAM}:user/ada", False),
        (f"{STS}:assumed-role/ada/data-science", False),
    ],
)
def test_only_the_named_start_and_destroy_it(caller, named):
    account = SimpleNamespace(caller_arn=caller)
    private = replace(
        descriptor(),
        settings={"private_to_creator": True, "secret_principals": [f"{IAM}:role/a/data-science"]},
        lock={"creator": f"{IAM}:user/team/ada"},
    )
    if named:
        check_may_change(account, private, "start it")
    else:
        with pytest.raises(ClusterPrivate, match="refuses to let you start it"):
            check_may_change(account, private, "start it")
    check_may_change(account, descriptor(private=False), "start it")


def test_principals_of_another_account_are_refused():
    with pytest.raises(InvalidInput, match="another AWS account"):
        private_policy(
            ["arn:aws:iam::999999999999:role/x"], HOSTS, account=ACCOUNT, partition="aws"
        )


@pytest.mark.parametrize(
    "arn",
    [
        f"{IAM}:user/ada",
        f"{IAM}:role/a/b+c",
        f"{IAM}:root",
        f"arn:aws-us-gov:iam::{ACCOUNT}:role/x",
    ],
)
def test_users_roles_and_root_can_be_named(arn):
    assert ClusterSettings(secret_principals=[arn]).secret_principals == [arn]


@pytest.mark.parametrize(
    "arn",
    [
        "ada",
        "*",
        f"{IAM}:role/*",
        f"{IAM}:group/all",
        f"{STS}:assumed-role/x/y",
        f"{IAM}:user/",
        f"{IAM}:user/ada\n",
        "",
    ],
)
def test_nobody_else_can(arn):
    with pytest.raises(ValueError, match="not the ARN of an IAM user or role"):
        ClusterSettings(secret_principals=[arn])


def descriptor(*, private=True):
    settings = {"private_to_creator": private, "secret_principals": [f"{IAM}:role/on-call"]}
    return Descriptor(
        "default",
        "etl",
        "us-east-1",
        "b",
        "us-east-1a",
        {},
        "terradask/default/etl",
        settings,
        {"creator": f"{IAM}:user/ada"},
    )


DENIED = AccessDenied("secretsmanager:GetSecretValue", "no")


def refusal(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetSecretValue")


def account(error):
    def get_secret_value(SecretId):  # noqa: N803  as boto3 names it
        assert SecretId == "terradask/default/etl"
        raise error

    return SimpleNamespace(
        caller_arn=f"{IAM}:user/bob",
        client=lambda _: SimpleNamespace(get_secret_value=get_secret_value),
    )


def test_who_may_not_read_is_told_who_may():
    with pytest.raises(ClusterPrivate) as caught:
        check_key_access(account(DENIED), descriptor())
    assert caught.value.principals == (f"{IAM}:user/ada", f"{IAM}:role/on-call")
    assert caught.value.given == f"{IAM}:user/bob"
    assert "cluster.secret_principals" in caught.value.advice


def test_an_empty_secret_is_readable_and_other_refusals_stay_what_they_are():
    check_key_access(account(refusal("ResourceNotFoundException")), descriptor())
    with pytest.raises(AccessDenied):
        check_key_access(account(DENIED), descriptor(private=False))
    with pytest.raises(ClientError, match="InternalService"):
        check_key_access(account(refusal("InternalServiceError")), descriptor())


def test_the_policy_is_json_of_one_statement_that_takes_away():
    (statement,) = json.loads(
        private_policy([f"{IAM}:user/ada"], HOSTS, account=ACCOUNT, partition="aws")
    )["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
