"""The user who lends: policy, bucket and access key."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from terradask_simulator import Simulator

USER, BUCKET = "ada", "adas-data"
ARN = f"arn:aws:iam::123456789012:user/{USER}"

DATA = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": [f"arn:aws:s3:::{BUCKET}{x}" for x in ("", "/*")],
        }
    ],
}


@contextlib.contextmanager
def user_of(sim: Simulator, policies: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, str]]:
    """Make an IAM user with the generated policy of users, a bucket of her own, and an access key;
    yield its variables.
    """
    with contextlib.ExitStack() as clients:
        iam, s3 = (
            clients.enter_context(contextlib.closing(sim.client(service)))
            for service in ("iam", "s3")
        )
        iam.create_user(UserName=USER)
        clients.callback(_remove, iam)
        for number, policy in enumerate([*policies["user"], DATA]):
            made = iam.create_policy(
                PolicyName=f"{USER}-{number}", PolicyDocument=json.dumps(policy)
            )
            iam.attach_user_policy(UserName=USER, PolicyArn=made["Policy"]["Arn"])
        key = iam.create_access_key(UserName=USER)["AccessKey"]
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="table", Body=b"hers")
        yield {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }
        s3.delete_object(Bucket=BUCKET, Key="table")
        s3.delete_bucket(Bucket=BUCKET)


def _remove(iam: Any) -> None:
    """Remove the user: another file of tests may share the embedded AWS."""
    for key in iam.list_access_keys(UserName=USER)["AccessKeyMetadata"]:
        iam.delete_access_key(UserName=USER, AccessKeyId=key["AccessKeyId"])
    for policy in iam.list_attached_user_policies(UserName=USER)["AttachedPolicies"]:
        iam.detach_user_policy(UserName=USER, PolicyArn=policy["PolicyArn"])
        iam.delete_policy(PolicyArn=policy["PolicyArn"])
    iam.delete_user(UserName=USER)
