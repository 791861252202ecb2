"""A worker with a cluster's keys that isn't on the instance of its name, and what it can sign."""

from __future__ import annotations

import json
from typing import Any

from botocore.credentials import Credentials
from distributed import Worker
from distributed.security import Security

from terradask import Cluster
from terradask_host.agent.instance_proofs import sign_proof
from terradask_host.preload.instance_proofs import startup_information
from terradask_simulator import Simulator

from .acting import ACCOUNT, REGION

KEY_NAMES = ("AccessKeyId", "SecretAccessKey", "SessionToken")


def poser(cluster: Cluster, sim: Simulator, name: str, **proof: str) -> Worker:
    """Return a worker with the cluster's keys that isn't on the instance of its name."""
    secret = json.loads(
        sim.client("secretsmanager").get_secret_value(SecretId="terradask/default/guarded")[
            "SecretString"
        ]
    )
    stolen = {f"tls_worker_{part}": text for part, text in secret["worker"].items()}
    return Worker(
        cluster.scheduler_address,
        name=name,
        security=Security(require_encryption=True, tls_ca_file=secret["ca"], **stolen),
        startup_information=startup_information(proof),
        protocol="tls",
        host="127.0.0.1",
        nthreads=1,
        dashboard=False,
        dashboard_address=":0",
    )


def sign(sim: Simulator, role: str, session: str, audience: str) -> dict[str, Any]:
    """Return the proof that a session of a role makes."""
    arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
    keys = sim.client("sts").assume_role(RoleArn=arn, RoleSessionName=session)["Credentials"]
    credentials = Credentials(*(keys[name] for name in KEY_NAMES))
    return sign_proof(sim.endpoint_url, REGION, credentials, audience).to_document()
