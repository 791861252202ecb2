"""Section ``[cluster]``, and each table of ``[clusters]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_modules.markets import SpotPolicy
from terradask_modules.reservations import is_targeted
from terradask_stacks.hardware.architecture import is_arm_name
from terradask_stacks.hardware.request import HardwareRequest
from terradask_stacks.numbers import NWorkers, most_of
from terradask_stacks.settings.base import Number, Section, Tags, Whole
from terradask_stacks.settings.connection import ConnectionSettings
from terradask_stacks.settings.disks import Disk, DiskSettings
from terradask_stacks.settings.hardware import HardwareSettings
from terradask_stacks.settings.ingress import IngressRule
from terradask_stacks.settings.life import LifeSettings
from terradask_stacks.settings.reservations import Reservation, spot_refusal
from terradask_stacks.settings.software import SoftwareSettings
from terradask_stacks.settings.variables import VariableSettings
from terradask_stacks.settings.worker_groups import (
    MOST_GROUPS,
    MOST_WORKERS,
    GroupName,
    WorkerGroupSettings,
)
from terradask_stacks.validators.dask import (
    check_dotted,
    check_n_workers,
    check_scheduler_options,
    check_worker_options,
)
from terradask_stacks.validators.refusal import refuse
from terradask_stacks.validators.resources import check_principals


class ObservationSettings(Section):
    """A cluster's settings for what it keeps of what it did."""

    performance_report: Literal["off", "without_source", "with_source"] = Field(
        default="without_source",
        description="Keep Dask's performance report at a run's end and on request, for "
        "`terradask report`. without_source has names and places of functions, with_source "
        "also their code.",
    )
    metrics: Literal["off", "cloudwatch"] = Field(
        default="off",
        description="cloudwatch: the scheduler's host writes the cluster's gauges once a "
        "minute as CloudWatch metrics, billed by the hour. off: only Prometheus can read them.",
    )


class CapacitySettings(Section):
    """Where workers come from. The scheduler is always on-demand."""

    spot_policy: SpotPolicy = Field(
        default="on-demand",
        description="Market of the workers; spot_with_fallback uses on-demand where Spot has "
        "no capacity. The scheduler is always on-demand.",
    )
    spot_fallback_seconds: Number = Field(
        default=60,
        gt=0,
        description="With spot_with_fallback: time without a Spot launch, in seconds, after "
        "which missing instances are requested on-demand. A failed Spot launch requests them "
        "at once.",
    )
    capacity_reservation: Reservation | None = Field(
        default=None,
        description="Id of a capacity reservation or block, or ARN of a group of them, in which "
        "workers without a named group run alone; 'open': open ones first; 'none': none. Unset: "
        "open ones, as EC2 does.",
        examples=["cr-0123456789abcdef0"],
    )

    @model_validator(mode="after")
    def _reserves_no_spot(self) -> CapacitySettings:
        spot_refusal("cluster.capacity_reservation", self.capacity_reservation, self.spot_policy)
        return self


#: Shorter than the watchdog, which ends a start without a scheduler.
MOST_PATIENCE_SECONDS = 1500

SchedulerOptions = Annotated[dict[str, Any], AfterValidator(check_scheduler_options)]
WorkerOptions = Annotated[dict[str, Any], AfterValidator(check_worker_options)]


def _wait_for_workers(value: Any) -> bool | int | float:
    if isinstance(value, bool):
        return value
    whole = isinstance(value, int) and value >= 0
    fraction = isinstance(value, float) and 0 <= value <= 1
    if not (whole or fraction):
        raise refuse(
            f"{value!r} is neither a fraction nor a number of workers",
            allowed=(
                "true, false, a fraction from 0.0 to 1.0 of the request, or a whole number of "
                "workers"
            ),
        )
    number: int | float = value
    return number


def _patience(value: Any) -> Any:
    """Return a wait for capacity, 0 for false."""
    if isinstance(value, int | float) and value > MOST_PATIENCE_SECONDS:
        raise refuse(
            "this is too long a wait for capacity: AWS ends a start without a scheduler after 30 "
            "minutes, by the watchdog schedule",
            allowed=f"0 to {MOST_PATIENCE_SECONDS} seconds, {MOST_PATIENCE_SECONDS // 60} minutes",
            advice=f"write {MOST_PATIENCE_SECONDS} or less, and start again if there is no "
            "capacity in that time",
        )
    return 0 if value is False else value


def _check_standby(section: str, standby: int, spot_policy: SpotPolicy) -> None:
    if standby and spot_policy == "spot":
        raise refuse(
            f"{section}.standby is {standby}, but its spot_policy is spot",
            allowed="on-demand, or spot_with_fallback, whose hosts on demand are prepared",
            advice="leave standby out: AWS prepares no Spot instances",
        )


class ClusterSettings(
    LifeSettings,
    HardwareSettings,
    DiskSettings,
    CapacitySettings,
    ConnectionSettings,
    SoftwareSettings,
    VariableSettings,
    ObservationSettings,
):
    """Section ``[cluster]``: defaults of every cluster; arguments of ``Cluster`` override them."""

    offer: str | None = Field(
        default=None,
        description="Offer whose settings the cluster has, a table of [offers]; what else is set "
        "must be within its choices.",
        examples=["gpu-small"],
    )
    max_workers: Whole = Field(
        default=200,
        ge=1,
        le=MOST_WORKERS,
        description="Upper limit of workers; shown and priced in the plan.",
    )
    standby: Whole = Field(
        default=0,
        ge=0,
        le=100,
        description="Number of workers' hosts that are kept prepared and stopped, also while the "
        "cluster is stopped. They start without downloads, and cost their volumes.",
    )
    n_workers: Annotated[NWorkers, BeforeValidator(check_n_workers)] = Field(
        default=None,
        description="Number of workers, or [minimum, maximum]: the cluster starts with the "
        "minimum, and adapts to its work. Unset: [4, 20].",
        examples=[4],
    )
    worker_groups: dict[GroupName, WorkerGroupSettings] = Field(
        default={},
        max_length=MOST_GROUPS,
        description="Named groups of workers with different machines. Settings such as "
        "worker_cpu, n_workers and max_workers don't count them.",
        examples=[{"gpu": {"gpu": 1, "n_workers": 2, "resources": {"GPU": 1}}}],
    )
    zone_name: str | None = Field(
        default=None,
        description="Availability zone of the whole cluster. Unset: as use_best_zone.",
        examples=["us-east-1a"],
    )
    use_best_zone: bool = Field(
        default=True,
        description="Without zone_name, choose the zone once by offered types, recent failed "
        "launches and Spot prices, and lock it. false: the network's first zone by name.",
    )
    allow_cross_zone: bool = Field(
        default=False,
        description="Launch workers in all of the network's zones that offer their types. "
        "That gives more capacity, but AWS charges for traffic between zones, in both "
        "directions.",
    )
    placement_group: bool = Field(
        default=False,
        description="Launch all hosts in a cluster placement group in one zone, for a faster "
        "network between them. AWS has less capacity for it, and some types don't support it.",
    )
    worker_class: Annotated[str, AfterValidator(check_dotted)] = Field(
        default="distributed.Nanny", description="Class of the workers, as a dotted path."
    )
    worker_options: WorkerOptions = Field(
        default={}, description="Keyword arguments of the worker class.", examples=[{"nthreads": 4}]
    )
    workers_per_host: Whole = Field(
        default=1,
        ge=1,
        le=128,
        description="Dask workers on each host, which share its threads and memory evenly. "
        "n_workers, max_workers and scale() count hosts.",
    )
    scheduler_class: Annotated[str, AfterValidator(check_dotted)] = Field(
        default="distributed.Scheduler", description="Class of the scheduler, as a dotted path."
    )
    scheduler_options: SchedulerOptions = Field(
        default={},
        description="Keyword arguments of the scheduler class.",
        examples=[{"idle_timeout": "1 hour"}],
    )
    extra_worker_on_scheduler: bool = Field(
        default=False,
        description="Also run a worker on the scheduler's host, with half of its memory and "
        "all threads but one. No count includes it.",
    )
    private_to_creator: bool = Field(
        default=False,
        description="Only the cluster's creator and secret_principals can read its keys, "
        "start it and destroy it; others may still stop it. Hosts with the same roles "
        "(workspace.isolation) can read the keys too.",
    )
    secret_principals: Annotated[list[str], AfterValidator(check_principals)] = Field(
        default=[],
        description="With private_to_creator: ARNs of further IAM users and roles that may "
        "connect, start and destroy.",
        examples=[["arn:aws:iam::123456789012:role/on-call"]],
    )
    tags: Tags = Field(
        default={},
        description="Tags on the cluster's resources and instances, in addition to the "
        "workspace's.",
        examples=[{"project": "forecast"}],
    )
    send_dask_config: bool = Field(
        default=True,
        description="Send a frozen copy of the caller's Dask configuration to hosts.",
    )
    wait_for_workers: Annotated[bool | int | float, BeforeValidator(_wait_for_workers)] = Field(
        default=0.3,
        description="Workers to wait for when a cluster is made: true (all), false, a "
        "fraction of the request, or a number.",
    )
    create_timeout_seconds: Number = Field(
        default=1200,
        gt=0,
        description="Longest time from the call to a scheduler that answers, in seconds.",
    )
    # AWS (documented, capacity-shifts): After InsufficientInstanceCapacity, EC2 may have capacity a
    # few minutes later, since it can shift frequently.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html
    capacity_timeout_seconds: Annotated[Number, BeforeValidator(_patience)] = Field(
        default=300,
        ge=0,
        le=MOST_PATIENCE_SECONDS,
        description="Longest time to go on requesting machines that AWS doesn't have, in seconds: "
        "in other zones too if the cluster is made here and names no zone. 0: the first refusal "
        "ends the start.",
    )

    worker_timeout_seconds: Number = Field(
        default=600,
        gt=0,
        description="Longest wait for the workers of wait_for_workers, in seconds.",
    )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the settings in a ``cluster.json``, as `Section.read` does."""
        rules, groups = document.get("ingress"), document.get("worker_groups", {})
        return super().read(
            {
                # An older terradask said nothing of it, and synchronised none.
                "package_sync": False,
                **document,
                "ingress": None if rules is None else [IngressRule.read(rule) for rule in rules],
                "worker_groups": {
                    name: WorkerGroupSettings.read(group) for name, group in groups.items()
                },
            }
        )

    @property
    def references(self) -> Mapping[str, str]:
        """Setting -> ARN of the secret that hosts read for it."""
        login = self.container_credentials
        return {**super().references, **({"container_credentials": login} if login else {})}

    @property
    def most_hosts(self) -> int:
        """Most workers' hosts that the cluster may have, of all groups together."""
        return self.max_workers + sum(group.max_workers for group in self.worker_groups.values())

    @property
    def has_reservation(self) -> bool:
        """Whether workers of any group run in a capacity reservation alone, in its zone."""
        groups = (group.capacity_reservation for group in self.worker_groups.values())
        return any(map(is_targeted, (self.capacity_reservation, *groups)))

    @property
    def own_disk_settings(self) -> dict[str, int]:
        """What is set of disks, by setting, those of groups of workers included."""
        groups = {
            f"worker_groups.{name}.{setting}": value
            for name, group in sorted(self.worker_groups.items())
            for setting, value in group.own_disk_settings.items()
        }
        return {**super().own_disk_settings, **groups}

    @property
    def own_disks(self) -> dict[str, Disk]:
        """Role, or name of a group of workers with disks of its own -> its volume; those of which
        nothing is set are left out.
        """
        groups = {
            name: group.disk(self.worker_disk)
            for name, group in sorted(self.worker_groups.items())
            if group.own_disk_settings
        }
        return {**super().own_disks, **groups}

    @property
    def hardware_requests(self) -> dict[str, HardwareRequest]:
        """What is asked of the machines of each group, those with names included."""
        named = {
            name: group.hardware_request(name, arm=self.arm)
            for name, group in sorted(self.worker_groups.items())
        }
        return {**super().hardware_requests, **named}

    @property
    def expects_arm(self) -> bool:
        """Whether the machines are for ARM, as settings and the names of types say it; EC2's
        description of them decides.
        """
        named = (name for request in self.hardware_requests.values() for name in request.vm_types)
        return any(map(is_arm_name, named)) if self.arm is None else self.arm

    @model_validator(mode="after")
    def _within_limits(self) -> ClusterSettings:
        if most_of(self.n_workers) > self.max_workers:
            raise refuse(
                (
                    f"cluster.n_workers is {self.n_workers}, more than cluster.max_workers, "
                    f"{self.max_workers}"
                ),
                allowed=f"0 to {self.max_workers}",
                advice="raise max_workers: it is the group's limit in the plan",
            )
        _check_standby("cluster", self.standby, self.spot_policy)
        if self.workers_per_host > 1 and self.worker_class in {
            "distributed.Worker",
            "distributed.worker.Worker",
        }:
            raise refuse(
                (
                    f"cluster.workers_per_host is {self.workers_per_host}, but "
                    "cluster.worker_class "
                    f"is {self.worker_class}"
                ),
                allowed="distributed.Nanny, which gives each worker a separate process",
                advice=(
                    "leave worker_class out, or use threads: workers without a nanny would "
                    "share one process"
                ),
            )
        for name, group in self.worker_groups.items():
            spot_policy = group.spot_policy or self.spot_policy
            _check_standby(f"cluster.worker_groups.{name}", group.standby, spot_policy)
            spot_refusal(
                f"cluster.worker_groups.{name}.capacity_reservation",
                group.capacity_reservation,
                spot_policy,
            )
        # AWS (documented): EC2 makes a reservation within one placement group, or within none.
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html
        if self.placement_group and self.has_reservation:
            raise refuse(
                "cluster.placement_group is true, and workers have a capacity reservation",
                allowed="one of them: the reservation isn't in the cluster's own placement group",
                advice="leave out placement_group, or capacity_reservation",
            )
        if self.placement_group and self.allow_cross_zone:
            raise refuse(
                "cluster.placement_group and cluster.allow_cross_zone are both true",
                allowed="one of them: a cluster placement group is in one zone",
                advice=(
                    "leave out allow_cross_zone for hosts close to each other, or "
                    "placement_group for more capacity"
                ),
            )
        return self
