"""Copies of secrets where a cluster's life must not leave any."""

import base64
import contextlib
import json
import subprocess
import time

import pytest

from terradask import Workspace

from ..command import in_this_process


@contextlib.contextmanager
def index_credentials(folder, token, password):
    """Configure package indexes with a token in pip's file, and a password in netrc."""
    (folder / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror.example.org/simple\n"
        f"extra-index-url = https://{token}@team.example.org/simple\n"
    )
    (folder / "netrc").write_text(f"machine mirror.example.org login me password {password}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_CONFIG_FILE", str(folder / "pip.conf"))
        patch.setenv("NETRC", str(folder / "netrc"))
        yield


@contextlib.contextmanager
def secret_of_hosts(sim, text):
    """Keep a secret with this text that hosts' roles may read; yield its ARN."""
    with (
        contextlib.ExitStack() as stack,
        contextlib.closing(sim.client("iam")) as iam,
        contextlib.closing(sim.client("secretsmanager")) as secrets,
    ):
        arn = secrets.create_secret(Name="team/planted", SecretString=text)["ARN"]
        stack.callback(secrets.delete_secret, SecretId=arn, ForceDeleteWithoutRecovery=True)
        may = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": arn}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
        for role in ("scheduler", "worker"):
            held = {"RoleName": f"terradask-default-{role}", "PolicyName": "planted"}
            iam.put_role_policy(**held, PolicyDocument=policy)
            stack.callback(iam.delete_role_policy, **held)
        yield arn


@contextlib.contextmanager
def plant_everywhere(sim, key, text):
    """Leave copies where a life must not leave them, for as long as the search runs."""
    with contextlib.ExitStack() as stack:

        def client(service):
            return stack.enter_context(contextlib.closing(sim.client(service)))

        s3, logs, ec2 = client("s3"), client("logs"), client("ec2")
        s3.create_bucket(Bucket="planted")
        stack.callback(s3.delete_bucket, Bucket="planted")
        s3.put_object(Bucket="planted", Key="x", Body=json.dumps({"key": key}).encode())
        stack.callback(s3.delete_object, Bucket="planted", Key="x")
        which = {"logGroupName": "/planted", "logStreamName": "x"}
        logs.create_log_group(logGroupName="/planted")
        stack.callback(logs.delete_log_group, logGroupName="/planted")
        logs.create_log_stream(**which)
        logs.put_log_events(
            **which, logEvents=[{"timestamp": int(time.time() * 1000), "message": f"with {text}"}]
        )
        data = {
            "ImageId": "ami-12c6146b",
            "UserData": base64.b64encode(f"#!/bin/sh\n{key}".encode()).decode(),
        }
        data["TagSpecifications"] = [
            {"ResourceType": "instance", "Tags": [{"Key": "x", "Value": text}]}
        ]
        tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "x", "Value": text}]}]
        ec2.create_launch_template(
            LaunchTemplateName="planted", LaunchTemplateData=data, TagSpecifications=tags
        )
        stack.callback(ec2.delete_launch_template, LaunchTemplateName="planted")
        process = subprocess.Popen(
            ["/bin/sh", "-c", "read x", text], env={"X": text}, stdin=subprocess.PIPE
        )
        stack.callback(process.communicate)
        yield


def print_logs(folder, *, log_into=None):
    """Write down in a folder what `terradask logs` prints of the cluster; return the folder.

    `log_into`, a simulator and a text: write that into the log of one of its hosts first.
    """
    if log_into is not None:
        sim, text = log_into
        (first, *_) = Workspace.load().deployment("guarded").logs()
        with contextlib.closing(sim.client("logs")) as logs:
            logs.put_log_events(
                logGroupName="/terradask/default",
                logStreamName=f"guarded/{first.run}/{first.group}/{first.host}",
                logEvents=[{"timestamp": int(time.time() * 1000), "message": text}],
            )
    for option in ("--json", "--filter=."):
        printed = in_this_process("logs", "guarded", "--all", option)
        assert "distributed.scheduler" in printed.stdout, printed.stderr
        (folder / f"logs{option}").write_text(printed.stdout)
    return folder
