"""Read the deployed network's facts for clusters: ``workspace.json`` in the workspace's bucket."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._common.json_text import parse_json
from terradask.errors import BaselineError, NoBaseline
from terradask_host.documents import UNREADABLE
from terradask_host.rules.limits import Limits
from terradask_modules.egress import Egress, outside_group
from terradask_modules.names import ROLES
from terradask_modules.partitions import partition_of
from terradask_modules.where import Where

BASELINE_FORMAT = 1
BASELINE_KEY = "workspace.json"


class _Model(BaseModel):
    # Newer versions may add keys to the same format.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Zone(_Model):
    """The subnets of one availability zone."""

    public_subnet_id: str
    private_subnet_id: str
    scheduler_subnet_id: str
    worker_subnet_id: str
    public_cidr: str
    private_cidr: str


class Template(_Model):
    """One version of a launch template."""

    id: str
    version: str


class Disks(_Model):
    """Templates for larger and faster disks."""

    #: Size in GiB -> architecture -> template.
    worker: dict[int, dict[str, Template]] = {}
    #: The same. None: deployed by a version without them.
    scheduler: dict[int, dict[str, Template]] | None = None
    #: MiB/s -> size in GiB, or ``usual`` -> architecture -> template. None: as above.
    worker_throughputs: dict[int, dict[str, dict[str, Template]]] | None = None


class Gpu(_Model):
    """Templates with a GPU image."""

    #: Role -> architecture -> template.
    templates: dict[str, dict[str, Template]]
    disks: Disks = Disks()


class Launch(_Model):
    """The hosts' configuration in the network's templates."""

    #: By role.
    disk_size_gib: dict[str, int] = {}


class Ingress(_Model):
    """The permitted sources of clients."""

    ports: list[str | int]
    cidr: str
    description: str = ""


class HostProgram(_Model):
    """The program of the hosts."""

    wheel_key: str
    wheel_sha256: str
    #: Keys of the scripts that hosts run.
    script_keys: list[str] = []


class Isolated(_Model):
    """Path and names of isolated clusters' own roles, and the groups of all of their hosts."""

    role_path: str
    role_name_prefix: str
    #: Cluster, or ``*`` for any other one -> the managed policies of its tasks.
    task_policies: dict[str, list[str]] = {}
    #: ``clients``, ``hosts``, and ``hosts-NAME`` of clusters with destinations of their own.
    security_groups: dict[str, str] = {}


class Baseline(_Model):
    """The deployed network in the form that clusters read."""

    format: int
    terradask_version: str
    workspace: str
    region: str
    account: str
    bucket: str
    vpc_id: str
    vpc_cidr: str
    zones: dict[str, Zone]
    #: Role -> architecture -> template; every role has the same architectures.
    templates: dict[str, dict[str, Template]]
    #: None: deployed by a version without them.
    disks: Disks | None = None
    #: None: hosts with GPUs use the common image.
    gpu: Gpu | None = None
    launch: Launch = Launch()
    security_groups: dict[str, str]
    instance_profiles: dict[str, str]
    roles: dict[str, str]
    secrets_prefix: str
    log_group: str
    nat: str
    interface_endpoints: list[str] = []
    #: Repositories of Amazon ECR from which hosts may pull images.
    container_repositories: list[str] = []
    public_workers: bool = False
    public_schedulers: bool = True
    #: Whether schedulers' hosts have the permissions of Session Manager's agent.
    session_manager: bool = False
    #: The topic to which schedulers' hosts publish the end of a run.
    notify_topic_arn: str | None = None
    allow_ingress_from_anywhere: bool = False
    #: Resources of others that the network uses: ``vpc``, ``security_groups``,
    #: ``instance_profiles``.
    given: list[str] = []
    kms_key_arn: str | None = None
    ingress: list[Ingress] = []
    #: Destinations beside port 443 and the network, those of mounts included.
    egress: list[Egress] = []
    #: Limits on what runs, as `terradask_host.rules.limits.Limits` reads them; empty without any.
    limits: dict[str, Any] = {}
    host: HostProgram
    isolation: Literal["workspace", "cluster"] = "workspace"
    isolated: Isolated | None = None
    #: Whether clusters may have their own launch templates, isolated or not.
    cluster_launch_templates: bool = False

    @property
    def limits_in_force(self) -> Limits | None:
        """The limits on what runs; None without any. Raises `BaselineError`."""
        if not self.limits:
            return None
        try:
            return Limits.read(self.limits)
        except UNREADABLE as error:
            raise _unreadable(
                f"the limits in {BASELINE_KEY} don't match their format: {error}",
                found=self.format,
                advice="terradask apply network writes it again",
            ) from error

    @property
    def where(self) -> Where:
        """The workspace."""
        return Where(
            partition=partition_of(self.region),
            region=self.region,
            account=self.account,
            workspace=self.workspace,
        )

    def task_policies(self, cluster: str) -> list[str]:
        """Return the managed policies that an isolated cluster's roles get."""
        found = {} if self.isolated is None else self.isolated.task_policies
        return found.get(cluster, found.get("*", []))

    def groups_out(self, rule: Egress) -> list[str]:
        """Return the security groups whose hosts a rule lets out: those that a destination's owner
        has to admit.
        """
        if self.isolated is None:
            return [self.security_groups[role] for role in ROLES]
        names = [outside_group(cluster) for cluster in rule.clusters] or ["hosts"]
        known = self.isolated.security_groups
        return [known[name] for name in names if name in known]

    def host_roles(self, cluster: str) -> dict[str, tuple[str, ...]]:
        """Return the ARNs of the IAM roles that a cluster's hosts may have: the workspace's, and
        the cluster's own, if clusters have some: an older cluster keeps the former.
        """
        shared: dict[str, tuple[str, ...]] = {role: (self.roles[role],) for role in ROLES}
        if self.isolated is None:
            return shared
        where, path = self.where.of_cluster(cluster), self.isolated.role_path
        names = {role: where.role_name(role, self.isolated.role_name_prefix) for role in ROLES}
        return {
            role: (*arns, where.iam_arn(f"role{path}{names[role]}"))
            for role, arns in shared.items()
        }

    @property
    def offered_disks(self) -> dict[str, list[int] | None]:
        """Additional disks: network setting -> deployed values, None if the deploying version lacks
        it.
        """
        found = self.disks
        menus = {
            "worker_disk_sizes_gib": None if found is None else found.worker,
            "scheduler_disk_sizes_gib": None if found is None else found.scheduler,
            "worker_disk_throughputs_mibps": None if found is None else found.worker_throughputs,
        }
        return {name: None if menu is None else list(menu) for name, menu in menus.items()}

    @property
    def architectures(self) -> frozenset[str]:
        """The processor architectures that hosts may have."""
        return frozenset(self.templates["worker"])


def read_baseline(aws: Aws, bucket: str) -> Baseline:
    """Read the network's facts for clusters.

    Raises `BaselineError`.

    Permissions needed: ``s3:GetObject`` on ``workspace.json`` in the bucket, ``s3:ListBucket``.
    """
    found = ObjectStore(aws, bucket).read(BASELINE_KEY)
    if found is None:
        raise NoBaseline(
            "the network of this workspace isn't deployed",
            given=f"no {BASELINE_KEY} in s3://{bucket}",
            advice=(
                "terradask plan network, then terradask apply network; or check "
                "workspace.name, workspace.region and the AWS account"
            ),
        )
    return parse_baseline(found.content)


def parse_baseline(body: bytes | str) -> Baseline:
    """Read ``workspace.json``. Raises `BaselineError`."""
    try:
        document: Any = parse_json(body)
    except ValueError as error:
        raise _unreadable(
            f"{BASELINE_KEY} is not valid JSON",
            found="none",
            advice="terradask apply network writes it again",
        ) from error
    found = document.get("format") if isinstance(document, dict) else None
    if isinstance(found, int) and found > BASELINE_FORMAT:
        version = document.get("terradask_version", "a newer version")
        raise _unreadable(
            "the network was deployed by a newer terradask",
            found=found,
            advice=f"pip install --upgrade terradask (the network was deployed with {version})",
        )
    if found != BASELINE_FORMAT:
        raise _unreadable(
            "the network was deployed by an older terradask",
            found=found,
            advice=(
                "upgrade the network: terradask plan network, then terradask apply network. No "
                "running host is replaced"
            ),
        )
    try:
        return Baseline.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _unreadable(
            f"{BASELINE_KEY} doesn't match its format: {'.'.join(map(str, first['loc']))}: "
            f"{first['msg']}",
            found=found,
            advice="terradask apply network writes it again",
        ) from error


def _unreadable(problem: str, *, found: Any, advice: str) -> BaselineError:
    return BaselineError(
        problem, given=f"format {found}", allowed=f"format {BASELINE_FORMAT}", advice=advice
    )
