"""The embedded AWS as an object, for tests and programs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from terradask_simulator.aws.access_keys import read_owner_key
from terradask_simulator.aws.backend import ACCOUNT, TRUST
from terradask_simulator.environment import complete, credentials_path, laid_over
from terradask_simulator.errors import SimulatorError
from terradask_simulator.process import (
    SimulatorInfo,
    deploy_baseline,
    environment_of,
    launch,
    left_running,
    request_control,
    request_stop,
)
from terradask_simulator.switches import Switches

if TYPE_CHECKING:
    import boto3

    from terradask_simulator.iam import LoggedRequest

__all__ = ["HostInfo", "Simulator"]

#: AWS (iam-sizes)
_MAX_CHARACTERS = 6_144


@dataclass(frozen=True)
class HostInfo:
    """A machine of the embedded AWS.

    Parameters
    ----------
    instance_id, instance_type
        Its instance.
    role, cluster, group
        From its tags.
    state
        ``waiting`` (to boot), ``booting``, ``running``, ``restarting``, ``ended`` (the program
        ended and the machine is still on), ``failed``, ``ending`` or ``off``.
    pid
        The host program's process id, None without a process.
    private_address, public_address
        Its addresses.
    log_path
        The host program's log, with lines of the simulator.
    """

    instance_id: str
    instance_type: str
    role: str
    cluster: str
    group: str
    state: str
    pid: int | None
    private_address: str
    public_address: str | None
    log_path: Path


class Simulator(Switches):
    """A running embedded AWS; make one with `Simulator.start`.

    Notes
    -----
    No request reaches Amazon, and no permission is needed. The daemon always ends with this
    process.
    """

    def __init__(
        self, info: SimulatorInfo, process: subprocess.Popen[bytes], *, owns_state: bool
    ) -> None:
        super().__init__(info)
        self._process: subprocess.Popen[bytes] | None = process
        self._owns_state = owns_state

    @classmethod
    def start(
        cls,
        *,
        region: str = "us-east-1",
        port: int = 0,
        baseline: bool = False,
        boot_hosts: bool = True,
        enforce_iam: bool = False,
        state_dir: str | os.PathLike[str] | None = None,
    ) -> Simulator:
        """Start an embedded AWS.

        Parameters
        ----------
        region
            The region that `environ` names.
        port
            The endpoint's port; by default any free one.
        baseline
            Whether to deploy the network baseline, which runs Terraform.
        boot_hosts
            Whether machines boot for instances. Otherwise instances only run, for measuring groups.
        enforce_iam
            Whether policies decide what roles (hosts' among them) and users may do; this object's
            own credentials have all permissions.
        state_dir
            The folder for everything; by default a temporary one that `stop` removes.

        Raises
        ------
        PortTaken, PlatformUnsupported, NoFreeRange
            The simulator can't start on this machine.
        BaselineFailed
            The baseline could not be deployed; the simulator was stopped again.
        """
        folder = None if state_dir is None else Path(state_dir)
        info, process = launch(
            port=port,
            region=region,
            boot_hosts=boot_hosts,
            enforce_iam=enforce_iam,
            state_dir=folder,
        )
        simulator = cls(info, process, owns_state=folder is None)
        if baseline:
            try:
                deploy_baseline(simulator.environ)
            except BaseException:
                simulator.stop()
                raise
        return simulator

    def __enter__(self) -> Simulator:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop."""
        self.stop()

    @property
    def endpoint_url(self) -> str:
        """The endpoint's URL."""
        return self.info.endpoint_url

    @property
    def state_dir(self) -> Path:
        """The folder with all files: Terraform's state, hosts, logs."""
        return Path(self.info.state_dir)

    @property
    def vpc_cidr(self) -> str:
        """The range that the network must use."""
        return self.info.vpc_cidr

    @property
    def overlay(self) -> dict[str, str | None]:
        """Variables that the embedded AWS sets, and with None those that it removes."""
        return environment_of(self.info)

    @property
    def environ(self) -> dict[str, str]:
        """A complete environment, based on this process's, in which all programs use the embedded
        AWS.
        """
        return complete(self.overlay)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Make this process use the embedded AWS within a ``with`` block."""
        with laid_over(self.overlay):
            yield

    @contextlib.contextmanager
    def acting_as(self, name: str, *policies: Mapping[str, Any] | str) -> Iterator[None]:
        """Make this process use the embedded AWS with only some policies, within a ``with`` block.

        Parameters
        ----------
        name, policies
            See `environ_of`.
        """
        with laid_over({**self.overlay, **self._credentials_of(name, policies)}):
            yield

    def environ_of(self, name: str, *policies: Mapping[str, Any] | str) -> dict[str, str]:
        """Return a complete environment in which all programs use the embedded AWS with only some
        policies.

        Parameters
        ----------
        name
            The name of the role to create; an existing one's policies are replaced.
        policies
            Its identity-based policies. They are attached as managed policies, each of at most
            6,144 characters without whitespace.
        """
        return {**self.environ, **self._credentials_of(name, policies)}

    def _credentials_of(
        self, name: str, policies: Sequence[Mapping[str, Any] | str]
    ) -> dict[str, str]:
        documents = [one if isinstance(one, str) else json.dumps(one) for one in policies]
        for document in documents:
            size = len("".join(document.split()))
            if size > _MAX_CHARACTERS:
                raise SimulatorError(
                    "A managed policy is larger than AWS allows",
                    given=f"{size} characters",
                    allowed=str(_MAX_CHARACTERS),
                    advice="split it",
                )
        with contextlib.closing(self.client("iam")) as iam:
            with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
                iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))
            for attached in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
                iam.detach_role_policy(RoleName=name, PolicyArn=attached["PolicyArn"])
                iam.delete_policy(PolicyArn=attached["PolicyArn"])
            for number, document in enumerate(documents):
                made = iam.create_policy(PolicyName=f"{name}-{number}", PolicyDocument=document)
                iam.attach_role_policy(RoleName=name, PolicyArn=made["Policy"]["Arn"])
        with contextlib.closing(self.client("sts")) as sts:
            role = f"arn:aws:iam::{ACCOUNT}:role/{name}"
            session = sts.assume_role(RoleArn=role, RoleSessionName=name)["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["SessionToken"],
        }

    def session(self) -> boto3.Session:
        """Return a boto3 session of the user of the embedded AWS.

        Notes
        -----
        boto3 reads the endpoint from the environment when it creates a client: create clients with
        ``endpoint_url=simulator.endpoint_url``, or within `applied`.
        """
        import boto3

        key = read_owner_key(credentials_path(self.state_dir))
        with self.applied():
            return boto3.Session(
                aws_access_key_id=key.access_key_id,
                aws_secret_access_key=key.secret,
                region_name=self.info.region,
            )

    def client(self, service: str) -> Any:
        """Return a boto3 client of a service at this endpoint; close it when done.

        Parameters
        ----------
        service
            The service, by boto3's name.
        """
        return self.session().client(service, endpoint_url=self.endpoint_url)  # type: ignore[call-overload]  # any service

    @overload
    def calls(self) -> dict[str, int]: ...
    @overload
    def calls(self, by: Literal["role"]) -> dict[str, dict[str, int]]: ...
    @overload
    def calls(self, by: Literal["resource"]) -> dict[str, dict[str, dict[str, int]]]: ...
    def calls(self, by: Literal["role", "resource"] | None = None) -> Any:
        """Return the numbers of calls since the start or the last `reset_calls`.

        Parameters
        ----------
        by
            None: by ``service:Action``. ``"role"``: by the name of the instances' role that signed
            (empty for other callers), then by action. ``"resource"``: S3 calls by role, then
            ``bucket/key``, then action.
        """
        return request_control(self.info, "GET", "calls" if by is None else f"calls?by={by}")

    def call_log(self, role: str = "") -> list[dict[str, Any]]:
        """Return the calls since the start or the last `reset_calls` in order, from the newest
        100,000 of all callers.

        Parameters
        ----------
        role
            Name of the instances' role that signed. By default calls of other callers.

        Returns
        -------
        list of dict
            ``seconds`` on a clock that never goes back, ``action`` (``service:Action``), and
            ``resource`` (``bucket/key``) for S3.
        """
        return list(request_control(self.info, "GET", f"calls/log?role={role}"))

    def reset_calls(self) -> None:
        """Reset the counts of calls and the log of requests."""
        request_control(self.info, "POST", "calls/reset")

    def requests(self) -> dict[str, list[LoggedRequest]]:
        """Return the requests since the start or the last `reset_calls`, as actions, resources and
        condition keys.

        Returns
        -------
        dict
            Requests with action, resource and condition keys by the ARN of the role or user; ``""``
            is this object's own credentials.

        Raises
        ------
        SimulatorError
            Policies are not enforced on this simulator.
        """
        from terradask_simulator.iam import LoggedRequest

        if not self.info.enforce_iam:
            raise SimulatorError(
                "Policies are not evaluated on this simulator",
                advice="Simulator.start(enforce_iam=True)",
            )
        answer = request_control(self.info, "GET", "requests")
        return {
            entity: [LoggedRequest.from_dict(row) for row in found]
            for entity, found in answer.items()
        }

    def hosts(self) -> list[HostInfo]:
        """Return the current machines."""
        return [
            HostInfo(**{**row, "log_path": Path(row["log_path"])})
            for row in request_control(self.info, "GET", "hosts")
        ]

    def kill_host(self, instance_id: str) -> None:
        """Kill a machine's processes without warning, and end its instance.

        Parameters
        ----------
        instance_id
            The instance.

        Raises
        ------
        SimulatorError
            There is no such machine.
        """
        if not request_control(self.info, "POST", f"hosts/{instance_id}/kill")["killed"]:
            known = ", ".join(host.instance_id for host in self.hosts()) or "none"
            raise SimulatorError("There is no such machine", given=instance_id, allowed=known)

    def running_instances(self) -> list[str]:
        """Return the ids of every running instance, with or without a machine."""
        return list(request_control(self.info, "GET", "instances"))

    def history(self) -> dict[str, Any]:
        """Return actual and desired numbers of groups since the start, and lifetimes of instances.

        Returns
        -------
        dict
            ``groups``: a row for each change, with ``seconds`` since the epoch, ``group``,
            ``desired`` and ``instances``. ``instances``: by id, with ``group``, ``born``, ``ended``
            (None while it lives), ``private_address`` and the ``tags`` at its launch.
        """
        return dict(request_control(self.info, "GET", "history"))

    def add_interface(
        self, subnet_id: str, security_group_ids: Sequence[str] = (), *, name: str = ""
    ) -> str:
        """Put a network interface without an instance, such as a database's, into a subnet.

        Parameters
        ----------
        subnet_id, security_group_ids
            Where, and which groups decide what reaches it; by default the VPC's default group.
        name
            A host name of at least two labels, which hosts in the subnet's VPC resolve: a record in
            a private hosted zone of Route 53.

        Returns
        -------
        str
            Its private address. It is one of this machine: a server that listens on it is what
            hosts reach.
        """
        with contextlib.ExitStack() as clients:
            ec2, route53 = (
                clients.enter_context(contextlib.closing(self.client(service)))
                for service in ("ec2", "route53")
            )
            groups = {"Groups": list(security_group_ids)} if security_group_ids else {}
            made = ec2.create_network_interface(SubnetId=subnet_id, **groups)["NetworkInterface"]
            address = str(made["PrivateIpAddress"])
            if name:
                zone = route53.create_hosted_zone(
                    Name=name.partition(".")[2],
                    CallerReference=made["NetworkInterfaceId"],
                    VPC={"VPCRegion": self.info.region, "VPCId": made["VpcId"]},
                    HostedZoneConfig={"PrivateZone": True},
                )
                record = {"Name": name, "Type": "A", "TTL": 60}
                record["ResourceRecords"] = [{"Value": address}]
                change = {"Changes": [{"Action": "CREATE", "ResourceRecordSet": record}]}
                route53.change_resource_record_sets(
                    HostedZoneId=zone["HostedZone"]["Id"], ChangeBatch=change
                )
        return address

    def left_running(self) -> list[str]:
        """Return deployed groups and running instances, one readable line each."""
        return left_running(self.info)

    def stop(self) -> list[str]:
        """End every host and the daemon, and remove temporary state.

        Returns
        -------
        list of str
            The groups and instances that were running, as in `left_running`.
        """
        if self._process is None:
            return []
        process, self._process = self._process, None
        left = request_stop(self.info, process)
        if self._owns_state:
            shutil.rmtree(self.state_dir, ignore_errors=True)
        return left
