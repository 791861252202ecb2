"""The settings of a workspace, its network and its clusters: the one place for defaults.

Models are frozen and refuse unknown keys. :mod:`terradask_stacks.loading` fills them from files,
Dask's configuration, environment variables and arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from terradask_modules.partitions import partition_of
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.settings.base import Section
from terradask_stacks.settings.cluster import ClusterSettings
from terradask_stacks.settings.egress import EgressRule, check_egress_rules
from terradask_stacks.settings.ingress import IngressRule
from terradask_stacks.settings.limits import LimitsSettings
from terradask_stacks.settings.network import NetworkSettings
from terradask_stacks.settings.offers import OfferSettings
from terradask_stacks.settings.policy import PolicySettings, Waiver
from terradask_stacks.settings.software import DEFAULT_ENVIRONMENT, EnvironmentSettings
from terradask_stacks.settings.state import StateSettings
from terradask_stacks.settings.worker_groups import WorkerGroupSettings
from terradask_stacks.settings.workspace import WorkspaceSettings
from terradask_stacks.validators.names import (
    validate_cluster_name,
    validate_environment_name,
    validate_offer_name,
)
from terradask_stacks.validators.refusal import refuse, refusing
from terradask_stacks.validators.tags import check_together

__all__ = [
    "OUTSIDE_OF_FILE",
    "ClusterSettings",
    "EgressRule",
    "EnvironmentSettings",
    "IngressRule",
    "LimitsSettings",
    "NetworkSettings",
    "OfferSettings",
    "PolicySettings",
    "Settings",
    "StateSettings",
    "Waiver",
    "WorkerGroupSettings",
    "WorkspaceSettings",
    "validate_cluster_name",
]


#: What a settings file can't contain: it guards against the file's author.
OUTSIDE_OF_FILE = (("state", "bucket_owner"), ("workspace", "trusted_accounts"))

_ClusterName = Annotated[str, AfterValidator(refusing(validate_cluster_name))]
_OfferName = Annotated[str, AfterValidator(refusing(validate_offer_name))]
_EnvironmentName = Annotated[str, AfterValidator(refusing(validate_environment_name))]


class Settings(Section):
    """Everything that ``terradask.toml`` can say."""

    workspace: WorkspaceSettings = WorkspaceSettings()
    network: NetworkSettings = NetworkSettings()
    state: StateSettings = StateSettings()
    policy: PolicySettings = PolicySettings()
    limits: LimitsSettings = LimitsSettings()
    cluster: ClusterSettings = ClusterSettings()
    clusters: dict[_ClusterName, ClusterSettings] = Field(
        default={},
        description=(
            "Declared clusters by name: settings that a table leaves out are as in [cluster]."
        ),
    )

    offers: dict[_OfferName, OfferSettings] = Field(
        default={},
        description="Offers by name: saved settings of clusters, and what users may choose.",
    )

    environments: dict[_EnvironmentName, EnvironmentSettings] = Field(
        default={},
        description="Named environments: `terradask env create NAME` puts one into the workspace's "
        "bucket.",
    )

    #: Declared cluster, or None for any other -> what is wrong with a call's arguments for it.
    _refused: Mapping[str | None, tuple[Finding, ...]] = PrivateAttr(default_factory=dict)

    def refuse_clusters(self, findings: Mapping[str | None, tuple[Finding, ...]]) -> None:
        """Make `cluster_named` raise findings, where a cluster is used that they are about: a
        declared one, by its name, or, for the name None, those that aren't declared.
        """
        self._refused = findings

    def environment_named(self, name: str) -> EnvironmentSettings | None:
        """Return an environment's settings; None if there is none of this name."""
        default = EnvironmentSettings() if name == DEFAULT_ENVIRONMENT else None
        return self.environments.get(name, default)

    def cluster_named(self, name: str) -> ClusterSettings:
        """Return a cluster's settings: as declared, or those of every cluster.

        Raises `SettingsError` if arguments of a call exceed its offer.
        """
        if found := self._refused.get(name if name in self.clusters else None):
            raise SettingsError(found)
        return self.clusters.get(name, self.cluster)

    @property
    def has_offers(self) -> bool:
        """Whether there are offers, or a cluster names one."""
        return bool(self.offers) or any(one.offer is not None for _, one in self._cluster_sections)

    @property
    def _cluster_sections(self) -> list[tuple[str, ClusterSettings]]:
        """Each section with settings of clusters."""
        declared = ((f"clusters.{name}", cluster) for name, cluster in self.clusters.items())
        return [("cluster", self.cluster), *declared]

    def for_cluster(self, name: str) -> Settings:
        """Return settings in which section ``[cluster]`` holds one cluster's."""
        return self.model_copy(update={"cluster": self.cluster_named(name)})

    @model_validator(mode="after")
    def _nothing_given_that_isolation_makes(self) -> Settings:
        given = [
            name
            for name in ("security_groups", "instance_profiles")
            if getattr(self.network, name) is not None
        ]
        if self.workspace.isolation == "cluster" and given:
            raise refuse(
                (
                    'workspace.isolation = "cluster" makes roles and security groups for each '
                    f"cluster; network.{given[0]} gives one for all"
                ),
                allowed="either of them",
                advice=(
                    f"leave out network.{' and network.'.join(given)}, or set "
                    'workspace.isolation = "workspace"'
                ),
            )
        return self

    @model_validator(mode="after")
    def _budgets_are_in_dollars(self) -> Settings:
        # AWS (documented): Costs of GovCloud's accounts are only known in the standard partition.
        # https://docs.aws.amazon.com/govcloud-us/latest/UserGuide/usage-and-payment.html
        # AWS (believed): China's accounts are billed in CNY, and take no budget in USD.
        region = self.workspace.region
        if self.network.budgets and partition_of(region) != "aws":
            raise refuse(
                f"network.budgets is set for {region}, whose costs AWS doesn't count there in US "
                "dollars",
                allowed="network.budgets in regions of AWS's standard partition",
                advice="make the budget outside of terradask, in the account that pays",
            )
        return self

    @property
    def state_buckets(self) -> list[str]:
        """The bucket of networks' states, if it isn't terradask's own."""
        return [] if self.state.bucket is None else [self.state.bucket]

    @model_validator(mode="after")
    def _tasks_raise_nothing(self) -> Settings:
        self.network.check_rights(
            partition_of(self.workspace.region),
            isolated=self.workspace.isolation == "cluster",
            buckets=self.state_buckets,
            images=self.network.container_repositories,
        )
        return self

    @model_validator(mode="after")
    def _egress_has_an_effect(self) -> Settings:
        network = self.network
        check_egress_rules(
            network.all_egress,
            network.routes,
            isolated=self.workspace.isolation == "cluster",
            has_ipv6=network.dual_stack or network.vpc_id is not None,
            lets_out_to_https=network.security_groups is None,
        )
        return self

    @model_validator(mode="after")
    def _tags_agree(self) -> Settings:
        # Each cluster's resources have the workspace's tags and its own.
        for _, cluster in self._cluster_sections:
            check_together({**self.workspace.tags, **cluster.tags})
        return self

    @model_validator(mode="after")
    def _zones_agree(self) -> Settings:
        region = self.workspace.region
        zones = self.network.zone_names
        setting = "network.subnets" if self.network.subnets else "network.zones"
        foreign = [zone for zone in zones or () if not zone.startswith(region)]
        if foreign:
            raise refuse(
                f"{setting} names {', '.join(foreign)}, outside of workspace.region, {region}",
                allowed=f"zones of {region}, such as {region}a",
            )
        for section, cluster in self._cluster_sections:
            zone = cluster.zone_name
            if zone is not None and not zone.startswith(region):
                raise refuse(
                    f"{section}.zone_name is {zone}, outside of workspace.region, {region}",
                    allowed=", ".join(zones) if zones else f"zones of {region}, such as {region}a",
                    advice="name a zone of the region, or leave it out",
                )
            if zone is not None and zones is not None and zone not in zones:
                raise refuse(
                    f"{section}.zone_name is {zone}, which is not in {setting}",
                    allowed=", ".join(zones),
                    advice=(
                        f'add a table [network.subnets."{zone}"] with the subnets for it, and '
                        "run: terradask apply network"
                    )
                    if self.network.subnets
                    else "add it to network.zones and run: terradask apply network",
                )
        return self

    @model_validator(mode="after")
    def _secrets_are_of_the_partition(self) -> Settings:
        partition = partition_of(self.workspace.region)
        for section, cluster in self._cluster_sections:
            for name, arn in cluster.references.items():
                if (other := arn.split(":")[1]) != partition:
                    raise refuse(
                        f"{section}.{name} is in the partition {other}, and "
                        f"workspace.region is {self.workspace.region}",
                        allowed=f"a secret of the partition {partition}: no credentials are valid "
                        "in two",
                        advice="copy it there, and write the copy's ARN",
                    )
        return self

    @model_validator(mode="after")
    def _keys_are_of_the_region(self) -> Settings:
        # AWS (documented, s3-kms): An S3 bucket's KMS key is of the bucket's region.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
        for section, key in (
            ("network", self.network.kms_key_arn),
            ("state", self.state.kms_key_arn),
        ):
            region = self.workspace.region
            if key is not None and key.split(":")[3] != region:
                raise refuse(
                    f"{section}.kms_key_arn is a key of {key.split(':')[3]}, and workspace.region "
                    f"is {region}",
                    allowed=f"a key of {region}: AWS encrypts nothing with another region's",
                )
        return self
