"""Where a policy denies every ``s3:PutObject`` that names no encryption, to callers and to hosts, a
workspace with a key of its own lives all the same, and nothing is written without the key.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS
from .acting import ACCOUNT, Account, refused
from .walled import SETTINGS

pytestmark = [pytest.mark.simulator, pytest.mark.life]

HEADER = "s3:x-amz-server-side-encryption"
DENY = {
    "Effect": "Deny",
    "Action": "s3:PutObject",
    "Resource": "*",
    "Condition": {"Null": {HEADER: "true"}},
}
LIFE = """
from terradask import Cluster
with Cluster("one", shutdown_on_close=True) as cluster, cluster.get_client() as client:
    assert client.submit(sum, [1, 2, 3]).result() == 6
"""
BUCKET = f"terradask-strict-{ACCOUNT}-us-east-1"


def _policy(*statements: dict[str, object]) -> dict[str, object]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def test_a_workspace_lives_where_writes_must_name_their_encryption(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path
) -> None:
    quick_provider.lock(tmp_path)
    with contextlib.ExitStack() as stack:
        owner = Account(sim, {}, stack)
        s3, iam = owner.client("s3"), owner.client("iam")
        found = s3.get_object(Bucket=f"terradask-default-{ACCOUNT}-us-east-1", Key="workspace.json")
        shared = json.load(found["Body"])
        settings = SETTINGS.format(**shared, **shared["zones"]["us-east-1a"])
        settings = settings.replace("walled", "strict").replace('isolation = "cluster"\n', "")
        # Rules for single clusters need isolation.
        settings = settings.replace('clusters = ["one"]\n', "")
        key = owner.client("kms").create_key()["KeyMetadata"]["Arn"]
        settings = settings.replace("[network]\n", f'[network]\nkms_key_arn = "{key}"\n', 1)
        (tmp_path / "terradask.toml").write_text(settings)
        allow = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        environ = {
            **sim.environ_of("strict", _policy(allow, DENY)),
            "TERRADASK_STATE_DIR": str(tmp_path / ".terradask"),
        }

        def run(*arguments: str) -> None:
            done = in_this_process(*arguments, environ=environ, folder=tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr

        sim.reset_calls()
        stack.callback(run, "destroy", "network", "--yes")
        run("apply", "network", "--yes")
        bare = Account(sim, environ, stack).client("s3")
        assert refused(bare.put_object, Bucket=BUCKET, Key="bare", Body=b"")
        for role in ("scheduler", "worker"):
            name = f"terradask-strict-{role}"
            held = {"RoleName": name, "PolicyName": "encrypted"}
            iam.put_role_policy(**held, PolicyDocument=json.dumps(_policy(DENY)))
            stack.callback(iam.delete_role_policy, **held)
        stack.callback(run, "destroy", "one", "--yes")
        lived = subprocess.run(
            [sys.executable, "-c", LIFE],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )
        assert lived.returncode == 0, lived.stderr
        written = {
            caller.rpartition("/")[2]: [
                (one.request.resource, one.allowed)
                for one in rows
                if one.request.action == "s3:PutObject" and BUCKET in one.request.resource
            ]
            for caller, rows in sim.requests().items()
        }
        bare_key = f"arn:aws:s3:::{BUCKET}/bare"
        for caller in ("strict", "terradask-strict-scheduler"):
            assert written[caller], caller
            for resource, allowed in written[caller]:
                assert allowed == (resource != bare_key), (caller, resource)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            for entry in page["Contents"]:
                how = s3.head_object(Bucket=BUCKET, Key=entry["Key"])
                named = (how["ServerSideEncryption"], how.get("SSEKMSKeyId"))
                assert named == ("aws:kms", key), entry["Key"]
