"""An embedded AWS whose instances are machines that boot."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from terradask import Workspace
from terradask._software.client_versions import lock_software
from terradask._software.named_environments import NamedEnvironment
from terradask_modules.caller_policies import CallerScope, caller_policies
from terradask_modules.names import bucket_name
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..container_registry import ContainerRegistry
from ..package_index import list_archive, serving
from ..quick_provider import QuickProvider
from ..waiting import eventually
from .machines import Power
from .metadata_service import metadata_service
from .system import PACKAGES, ROOT
from .wires import CIDR, ROUTER, reachable

#: Most that a machine takes here until it has joined.
BOOT_SECONDS = 420
_STOPPED = "Warmed:Stopped"

#: What hosts without a run are launched from, and the cluster that they say they are of.
TEMPLATE, NO_CLUSTER = "terradask-default-worker", "none"

#: What hosts mount, and one of its files.
LAKE = {"path": "/data/lake", "bucket": "lake"}
LAKE_FILE, LAKE_TEXT = "prices.csv", "1,2"


class BootSimulator(Simulator):
    """An embedded AWS with private addresses that machines can have."""

    provider: QuickProvider

    @property
    def overlay(self) -> dict[str, str | None]:
        """Variables that are set, and with None those that are removed."""
        return {
            **super().overlay,
            **self.provider.environ,
            "TERRADASK_NETWORK__CIDR": CIDR,
            # The client is where the router is.
            "TERRADASK_NETWORK__INGRESS": json.dumps([{"cidr": f"{ROUTER}/32"}]),
            "TERRADASK_NETWORK__ARCHITECTURES": '["x86_64"]',
            "TERRADASK_NETWORK__HOST_PACKAGES": str(PACKAGES),
            "TERRADASK_NETWORK__MOUNTS": json.dumps([LAKE]),
            "TERRADASK_CLUSTER__SCHEDULER_OPTIONS": '{"dashboard": false}',
        }


@dataclass
class BootedAws:
    """An embedded AWS whose instances boot.

    Parameters
    ----------
    sim, power
        Its parts.
    without_token
        What was asked of the metadata service without a token.
    registry
        Of container images.
    """

    sim: Simulator
    power: Power
    without_token: list[str]
    registry: ContainerRegistry

    def secret_of_hosts(self, text: str) -> str:
        """Keep a secret that the roles of hosts may read; return its ARN."""
        with (
            contextlib.closing(self.sim.client("secretsmanager")) as secrets,
            contextlib.closing(self.sim.client("iam")) as iam,
        ):
            arn = str(secrets.create_secret(Name="team/registry", SecretString=text)["ARN"])
            may = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": arn}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
            for role in ("scheduler", "worker"):
                iam.put_role_policy(
                    RoleName=f"terradask-default-{role}", PolicyName="team", PolicyDocument=policy
                )
        return arn

    def sim_network(self, **settings: Any) -> None:
        """Apply the network with further settings, as its owner; without any, with AWS's image."""
        workspace = Workspace.load(network={"zones": ["us-east-1a"], **settings})
        # The lock keeps an image whose setting is gone.
        workspace.apply(workspace.plan_network(refresh=not settings))

    def pool(self, cluster: str) -> dict[str, str]:
        """Return the states of a cluster's prepared workers, by instance."""
        with contextlib.closing(self.sim.client("autoscaling")) as client:
            name = f"terradask-default-{cluster}-workers"
            found = client.describe_warm_pool(AutoScalingGroupName=name)
        return {one["InstanceId"]: one["LifecycleState"] for one in found["Instances"]}

    def stopped(self, cluster: str) -> str:
        """Wait until a cluster's one prepared worker is stopped and off, and return it."""

        def found() -> str | None:
            kept = self.pool(cluster)
            if list(kept.values()) != [_STOPPED]:
                return None
            (one,) = kept
            return one if self.power.machines[one].is_off else None

        return str(eventually(found, seconds=BOOT_SECONDS))

    def report(self, cluster: str, instance_id: str) -> dict[str, Any]:
        """Return what a host has reported, or nothing."""
        with contextlib.closing(self.sim.client("s3")) as s3:
            bucket = bucket_name("default", "123456789012", "us-east-1")
            key = f"clusters/{cluster}/hosts/{instance_id}.json"
            try:
                return dict(json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read()))
            except s3.exceptions.NoSuchKey:
                return {}

    def log(self, cluster: str, instance_id: str) -> str:
        """Return what a host has written to CloudWatch so far."""
        with contextlib.closing(self.sim.client("logs")) as logs:
            where = {"logGroupName": "/terradask/default", "logStreamNamePrefix": f"{cluster}/"}
            pages = logs.get_paginator("filter_log_events").paginate(**where)
            return "\n".join(
                event["message"]
                for page in pages
                for event in page["events"]
                if event["logStreamName"].endswith(f"/{instance_id}")
            )


@contextmanager
def booted_aws(provider: QuickProvider, folder: Path) -> Iterator[BootedAws]:
    """Deploy the network with IAM evaluated, and serve an index with the environment's packages;
    call it in a network of its own.
    """
    with ExitStack() as stack:
        sim = stack.enter_context(BootSimulator.start(enforce_iam=True, boot_hosts=False))
        sim.provider = provider
        with contextlib.closing(sim.client("s3")) as s3:
            s3.create_bucket(Bucket=LAKE["bucket"])
            s3.put_object(Bucket=LAKE["bucket"], Key=LAKE_FILE, Body=LAKE_TEXT)
        # The generated rights suffice to bring the host program's packages too.
        with sim.acting_as("setup", *_setup_policies()):
            workspace = Workspace.load(network={"zones": ["us-east-1a"]})
            workspace.apply(workspace.plan_network())
        stack.enter_context(sim.applied())
        index = stack.enter_context(serving(_index(folder / "index")))
        registry = ContainerRegistry()
        stack.enter_context(registry.serving())
        files = _image(
            stack.enter_context(reachable(urlsplit(sim.endpoint_url).port or 0)),
            stack.enter_context(reachable(urlsplit(index).port or 0)),
            stack.enter_context(reachable(int(registry.address.rpartition(":")[2]))),
        )
        without_token = stack.enter_context(metadata_service(sim))
        ec2: Any = sim.client("ec2")
        stack.callback(ec2.close)
        machines = folder / "machines"
        machines.mkdir()
        stack.callback(shutil.rmtree, machines, ignore_errors=True)
        power = stack.enter_context(Power(ec2, machines, files=files))
        yield BootedAws(sim, power, without_token, registry)


def _setup_policies() -> list[dict[str, Any]]:
    place = PolicyScope(
        where=Where(
            partition="aws", region="us-east-1", account="123456789012", workspace="default"
        )
    )
    return list(caller_policies(CallerScope(hosts=place), "setup").values())


def environment_of(name: str) -> None:
    """Put a named environment into the workspace's bucket: the packages of this environment."""
    workspace = Workspace.load()
    lock = lock_software([], lock_file=ROOT / "requirements/dev.lock")
    at, by = "2026-01-01T00:00:00Z", workspace.aws.caller_arn
    environment = NamedEnvironment.of_lock(name, lock, "x86_64", at=at, by=by)
    workspace.environments.stored.write(environment, lock)


def _index(root: Path) -> Path:
    root.mkdir()
    (root / "files").symlink_to(PACKAGES)
    for archive in PACKAGES.glob("*.whl"):
        list_archive(root, archive.name.split("-")[0].replace("_", "-").lower(), archive)
    return root


def _image(endpoint: str, index: str, registry: str) -> dict[str, str]:
    """Return the files of an image for a network without internet: docs/network.md has the first.
    The embedded AWS answers on loopback alone, each machine's here; a registry too, without TLS.
    """
    system = "etc/systemd/system"
    address, there = urlsplit(endpoint), urlsplit(registry)
    return {
        f"{system}/terradask-host.service.d/index.conf": (
            f"[Service]\nEnvironment=UV_DEFAULT_INDEX={index}/simple\n"
        ),
        "usr/sbin/mount.mount-s3": Path(__file__).with_name("mount_by_s3fs.sh").read_text(),
        f"{system}/aws.socket": f"[Socket]\nListenStream=127.0.0.1:{address.port}\n",
        # AWS is there until the machine is off.
        f"{system}/aws.service": (
            "[Unit]\nBefore=terradask-host.service terradask-leave.service\n"
            f"[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd {address.netloc}\n"
        ),
        f"{system}/registry.socket": f"[Socket]\nListenStream=127.0.0.1:{there.port}\n",
        f"{system}/registry.service": (
            f"[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd {there.netloc}\n"
        ),
        f"{system}/sockets.target.d/aws.conf": "[Unit]\nWants=aws.socket registry.socket\n",
        "etc/systemd/system.conf.d/aws.conf": (
            f"[Manager]\nDefaultEnvironment=AWS_ENDPOINT_URL=http://127.0.0.1:{address.port}\n"
        ),
        "etc/systemd/journald.conf.d/console.conf": "[Journal]\nForwardToConsole=yes\n",
    }


def launch(ec2: Any, name: str, **besides: Any) -> str:
    """Launch an instance of no run from the workers' template, and return its id."""
    (subnet,) = ec2.describe_subnets(
        Filters=[{"Name": "tag:terradask:workspace", "Values": ["default"]}]
    )["Subnets"][:1]
    tags = {
        "Name": name,
        "terradask:cluster": NO_CLUSTER,
        "terradask:role": "worker",
        "terradask:group": "workers",
        "terradask:run:python": "3.11",
    }
    (version,) = ec2.describe_launch_template_versions(
        LaunchTemplateName=TEMPLATE, Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    (interface,) = version["LaunchTemplateData"]["NetworkInterfaces"]
    instance = ec2.run_instances(
        LaunchTemplate={"LaunchTemplateName": TEMPLATE},
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
        ],
        # Without groups it would have the VPC's default one, which admits nothing.
        NetworkInterfaces=[
            {"DeviceIndex": 0, "SubnetId": subnet["SubnetId"], "Groups": interface["Groups"]}
        ],
        **besides,
    )["Instances"][0]
    return str(instance["InstanceId"])
