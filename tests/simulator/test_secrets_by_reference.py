"""Secrets by reference in a whole life: the right that is missing, the values that all processes
have, and hosts that come in others' places.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from collections.abc import Iterator

import pytest

from terradask import Cluster
from terradask.errors import HostFailed
from terradask_simulator import Simulator

from ..waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

PASSWORD, TOKEN = "a-password-that-is-planted", "a-token-that-is-planted"
ROLES = ("terradask-default-scheduler", "terradask-default-worker")


@pytest.fixture
def secrets(sim: Simulator) -> Iterator[dict[str, str]]:
    """A secret and a parameter that a customer's key encrypts, which no role may read."""
    with contextlib.ExitStack() as stack:
        client = {
            service: stack.enter_context(contextlib.closing(sim.client(service)))
            for service in ("kms", "secretsmanager", "ssm")
        }
        key = client["kms"].create_key()["KeyMetadata"]
        stack.callback(
            client["kms"].schedule_key_deletion, KeyId=key["KeyId"], PendingWindowInDays=7
        )
        arn = client["secretsmanager"].create_secret(
            Name="team/db", SecretString=json.dumps({"password": PASSWORD})
        )["ARN"]
        stack.callback(
            client["secretsmanager"].delete_secret, SecretId=arn, ForceDeleteWithoutRecovery=True
        )
        client["ssm"].put_parameter(
            Name="/team/token", Value=TOKEN, Type="SecureString", KeyId=key["KeyId"]
        )
        stack.callback(client["ssm"].delete_parameter, Name="/team/token")
        parameter = "arn:aws:ssm:us-east-1:123456789012:parameter/team/token"
        yield {"DB_PASSWORD": f"{arn}:password", "TOKEN": parameter, "KEY": key["Arn"]}


def rights_in(error: HostFailed) -> dict[str, list[str]]:
    """Return the statement that an error says to add to the settings."""
    lines = [line.strip() for line in str(error).splitlines()]
    first = lines.index("[[network.task_rights]]")
    (rights,) = tomllib.loads("\n".join(lines[first : first + 4]))["network"]["task_rights"]
    return {"Effect": "Allow", "Action": rights["actions"], "Resource": rights["resources"]}


def test_each_missing_right_is_named_until_all_processes_have_their_secrets(
    sim: Simulator, sim_environ: None, secrets: dict[str, str]
) -> None:
    def own() -> tuple[str | None, str | None]:
        return os.environ.get("DB_PASSWORD"), os.environ.get("TOKEN")

    key = secrets.pop("KEY")
    statements = []
    with contextlib.closing(sim.client("iam")) as iam, contextlib.ExitStack() as stack:

        def add(statement: dict[str, list[str]]) -> None:
            statements.append(statement)
            policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
            for role in ROLES:
                held = {"RoleName": role, "PolicyName": "secrets"}
                iam.put_role_policy(**held, PolicyDocument=policy)
                if len(statements) == 1:
                    stack.callback(iam.delete_role_policy, **held)

        with sim.time_hosts(secret_deadline_seconds=0.5):
            for action in ("secretsmanager:GetSecretValue", "ssm:GetParameter", "kms:Decrypt"):
                with pytest.raises(HostFailed, match="this host's role may not read it") as caught:
                    Cluster("referring", n_workers=0, secrets=secrets, shutdown_on_close=False)
                missing = rights_in(caught.value)
                assert missing["Action"] == [action]
                assert PASSWORD not in str(caught.value)
                add(missing)
        assert statements[-1]["Resource"] == [key]
        with (
            Cluster("referring", n_workers=1, wait_for_workers=True, secrets=secrets) as cluster,
            cluster.get_client() as client,
        ):
            assert client.run_on_scheduler(own) == (PASSWORD, TOKEN)
            assert list(client.run(own).values()) == [(PASSWORD, TOKEN)]
            job = cluster.run_command(["sh", "-c", f'test "$DB_PASSWORD" = {PASSWORD}'])
            job.wait(timeout=HANG_SECONDS)
            assert job.exit_code == 0
            (before,) = cluster.worker_names()
            sim.kill_host(before)
            eventually(lambda: {before} != set(cluster.worker_names()) != set())
            assert list(client.run(own).values()) == [(PASSWORD, TOKEN)]
            # A client's word counts.
            cluster.send_private_envs({"TOKEN": "sent"})
            assert list(client.run(own).values()) == [(PASSWORD, "sent")]
