"""The free steps of the account check: facts about the account, before anything is created."""

from __future__ import annotations

import contextlib
import datetime
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, get_args

from terradask._aws.free_plan import eligible_types
from terradask._aws.listing import MOST_VALUES, listed, listed_zones
from terradask._aws.own_address import own_cidr
from terradask._aws.session import Aws
from terradask._aws.translation import time_of
from terradask._catalog.instance_types.listing import fetch_catalog, load_catalog
from terradask._catalog.prices.price_list import pricing_region, unavailable
from terradask._catalog.prices.prices import (
    PriceKey,
    Product,
    RunningHost,
    Volumes,
    hourly_usd,
    parts_of_host,
    parts_of_secret,
)
from terradask._catalog.prices.products import fields_of, query_for
from terradask._common.progress import silent
from terradask._doctor.account_check.place import (
    CLUSTER,
    DISK_GIB,
    LEAST_MEMORY_MIB,
    MOST_WORKERS,
    check_settings,
    cluster_settings,
    new_name,
)
from terradask._doctor.account_check.rights import check_rights
from terradask._doctor.account_check.steps import Step, StepResult
from terradask._doctor.doctor import TOOLCHAIN, check_account_plan, check_service_roles, examine
from terradask._workspace.caller_scope import caller_scope
from terradask._workspace.host_packages import packages_folder
from terradask.errors import AccessDenied, TerradaskError
from terradask_stacks.settings import ClusterSettings, Settings

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace

#: Less than AWS refuses already breaks certificates and reports.
#: AWS (documented, clock-skew): S3 and IAM refuse a signature whose time differs by over 15
#: minutes. https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-troubleshooting.html
_MOST_SKEW_SECONDS = 300


@dataclass
class Account:
    """Examine an account, with the user's own workspace."""

    workspace: Workspace
    #: Of the workspace that the check makes: rights are those of its resources.
    name: str = field(default_factory=new_name)
    #: Results of the steps.
    zone: str = ""
    instance_types: list[str] = field(default_factory=list)
    disk_gib: int = DISK_GIB
    hourly_usd: Decimal | None = None
    #: Source address of the check's clients; None if no ingress is needed.
    own_cidr: str | None = None
    #: Types of AWS's Free plan, if the account uses it.
    _eligible: tuple[str, ...] = ()

    @property
    def _aws(self) -> Aws:
        return self.workspace.aws

    def prerequisites(self) -> list[Step]:
        """Return the steps that all others need."""
        return [
            Step("machine", "Python, Node, Terraform and the provider are here", self._machine),
            Step("identity", "AWS accepts the credentials", self._identity),
        ]

    def steps(self) -> list[Step]:
        """Return the other steps, in order of their dependencies."""
        return [
            Step("clock", "this machine's clock is right", self._clock),
            Step("region", "the region is there, with zones", self._region),
            Step("account-plan", "which types the account may launch", self._account_plan),
            Step("service-roles", "AWS's own roles for launches", self._service_roles),
            Step("instance-type", "a zone offers a cheap instance type", self._instance_type),
            Step("image", "the image can be launched", self._image),
            Step("prices", "AWS's price list answers", self._prices),
            Step("quotas", "the quotas suffice", self._quotas),
            Step("address", "this machine's address outside is known", self._address),
            Step("rights", "AWS's policy simulator allows what follows", self._rights),
        ]

    def _machine(self, result: StepResult) -> None:
        for finding in examine(TOOLCHAIN):
            result.facts[finding.check] = finding.found
            if not finding.ok:
                raise TerradaskError(
                    f"{finding.check}: {finding.found}", given=finding.found, advice=finding.fix
                )

    def _identity(self, result: StepResult) -> None:
        # The caller stays out of the report, which may be sent to others.
        kind = self._aws.caller_arn.split(":")[5].partition("/")[0]
        result.facts |= {"principal": kind, "partition": self._aws.partition}

    def _clock(self, result: StepResult) -> None:
        answer = self._aws.client("sts").get_caller_identity()
        there = time_of(answer)
        if there is None:
            return
        ahead = (datetime.datetime.now(datetime.UTC) - there).total_seconds()
        result.facts["seconds_ahead_of_aws"] = round(ahead)
        if abs(ahead) > _MOST_SKEW_SECONDS:
            raise TerradaskError(
                "this machine's clock is wrong",
                given=f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} AWS",
                allowed=f"at most {_MOST_SKEW_SECONDS} s",
                advice="set the clock, and synchronise it (NTP)",
            )

    def _region(self, result: StepResult) -> None:
        self._aws.check_region()
        zones = listed_zones(self._aws.client("ec2"))
        result.facts |= {"region": self._aws.region, "zones": zones}
        if not zones:
            raise TerradaskError(
                "the region has no zone for this account",
                given=self._aws.region,
                advice="enable the region for the account, or choose another: workspace.region",
            )
        self._filter_by_many(result)

    def _filter_by_many(self, result: StepResult) -> None:
        """Try the largest filter, with ids that don't exist."""
        from botocore.exceptions import ClientError

        values = [f"vpc-{number:017x}" for number in range(MOST_VALUES)]
        with contextlib.suppress(AccessDenied):
            try:
                self._aws.client("ec2").describe_vpcs(
                    Filters=[{"Name": "vpc-id", "Values": values}]
                )
                result.assumptions["ec2-filter-values"] = True
            except ClientError as error:
                result.text(str(error))
                result.assumptions["ec2-filter-values"] = False

    def _account_plan(self, result: StepResult) -> None:
        finding = check_account_plan(self._aws, self._settings)
        result.facts["found"] = finding.found
        if not finding.ok:
            self._eligible = eligible_types(self._aws)
            result.facts["types"] = self._eligible

    def _service_roles(self, result: StepResult) -> None:
        # A missing one is created with the network.
        result.facts["found"] = check_service_roles(self._aws).found

    def _instance_type(self, result: StepResult) -> None:
        from terradask._synthesis.resolve_hardware import find_hardware

        # This caller's own permission counts, not an earlier caller's cache on disk.
        load_catalog(self._aws, refresh=True)
        chosen = find_hardware(self._cluster(), (), self._aws, progress=silent)
        self.zone = chosen.zone
        self.instance_types = chosen.types()["workers"][:1]
        result.facts |= {
            "zone": self.zone,
            "type": self.instance_types[0],
            "why": chosen.reasons()["workers"],
        }

    def _image(self, result: StepResult) -> None:
        from terradask._synthesis.resolve_network import resolve_network

        lock = resolve_network(self._settings, self._aws)
        image, size = lock.image_ids["x86_64"], lock.image_sizes_gib.get("x86_64")
        result.facts |= {"image": image, "snapshot_gib": size}
        if size is None:
            raise TerradaskError(
                "the image can't be found in this account",
                given=image,
                allowed="an image of this region that the account may launch",
                advice="leave network.image out for the newest Amazon Linux 2023",
            )
        self.disk_gib = max(DISK_GIB, size)

    def _prices(self, result: StepResult) -> str | None:
        from terradask._catalog.prices.price_list import AwsPriceList

        region, name = self._aws.region, self.instance_types[0]
        hosts = [
            parts_of_host(
                RunningHost(name, "on-demand", self.zone, True, Volumes(self.disk_gib)), region
            )
        ] * (1 + MOST_WORKERS)
        parts = [*hosts, parts_of_secret(region)]
        # One of each product, whatever the check itself uses.
        asked = {
            PriceKey(product, region) for product in get_args(Product) if product != "instance"
        } | {
            PriceKey("instance", region, name, "on-demand"),
            PriceKey("instance", region, name, "spot", self.zone),
        }
        result.facts["usage_types"] = {
            str(key): self._usage_types(key)
            for key in sorted(asked, key=str)
            if key.market != "spot" and unavailable(region, key.market) is None
        }
        quotes = AwsPriceList(self._aws).look_up(sorted(asked, key=str))
        result.facts["source"] = quotes.source
        result.facts["usd"] = {
            str(key): f"{price.usd} per {price.per}" for key, price in quotes.prices.items()
        }
        result.facts["without"] = {str(key): why for key, why in quotes.problems.items()}
        self.hourly_usd = hourly_usd(parts, quotes)
        if unavailable(region, None) is not None:
            return unavailable(region, None)
        result.assumptions["price-usage-types"] = all(
            result.facts["usage_types"].values()
        ) and not [key for key in quotes.problems if key.market != "spot"]
        if quotes.problems:
            missing = "; ".join(f"{key}: {why}" for key, why in quotes.problems.items())
            raise TerradaskError(
                "AWS's price list doesn't answer all requests",
                given=missing,
                advice="plans then show no cost; the caller needs pricing:GetProducts and "
                "ec2:DescribeSpotPriceHistory",
            )
        return None

    def _usage_types(self, key: PriceKey) -> list[str]:
        """Return the price list's usage types of the products that a query finds."""
        pricing = self._aws.in_region(pricing_region(key.region), attempts=2).client("pricing")
        entries = listed(pricing, "get_products", "PriceList", **fields_of(query_for(key)))
        products = [json.loads(entry)["product"]["attributes"] for entry in entries]
        return sorted({str(one.get("usagetype")) for one in products})

    def _quotas(self, result: StepResult) -> None:
        from terradask._catalog.quotas.check import check_quotas, too_small

        groups = {CLUSTER: dict.fromkeys(("scheduler", "workers", "cheap"), self.instance_types)}
        checks = check_quotas(self._aws, self._settings, groups, [self.zone])
        result.facts["quotas"] = {
            one.name: {"limit": one.limit, "needed": one.needed} for one in checks
        }
        short = [one for one in checks if one.verdict == "short"]
        if short:
            raise too_small(short)

    def _address(self, result: StepResult) -> str | None:
        user = self.workspace.settings
        if user.cluster.connect == "ssm":
            return 'connect = "ssm" needs no ingress'
        self.own_cidr = own_cidr(user.workspace.own_address_url)
        return None

    def _rights(self, result: StepResult) -> str | None:
        return check_rights(self._aws, caller_scope(self._settings, self._aws), result)

    def _cluster(self) -> ClusterSettings:
        """Return the check's cluster, with types that the account may launch."""
        if not self._eligible:
            return self._settings.clusters[CLUSTER]
        catalog = fetch_catalog(self._aws, self._eligible)
        usable = [
            name
            for name in self._eligible
            if (one := catalog.types.get(name)) is not None
            and one.architecture == "x86_64"
            and one.memory_mib >= LEAST_MEMORY_MIB
        ]
        if not usable:
            raise TerradaskError(
                "AWS's Free plan has no type here that is large enough for a worker",
                given=", ".join(self._eligible),
                allowed=f"an x86-64 type with {LEAST_MEMORY_MIB} MiB",
                advice="upgrade the account to the Paid plan, or choose another region",
            )
        settings = cluster_settings(self.workspace.settings, types=usable)
        return type(self._settings.cluster).model_validate(settings)

    def settings(self, name: str | None = None, *, until: str = "") -> dict[str, Any]:
        """Return the check's settings, with the results of the steps so far."""
        user = self.workspace
        return check_settings(
            user.settings,
            name or self.name,
            account=self._aws.account_id,
            until=until,
            zone=self.zone,
            types=self.instance_types,
            disk_gib=self.disk_gib,
            own_cidr=self.own_cidr,
            host_packages=packages_folder(user.settings, user.root),
        )

    @property
    def _settings(self) -> Settings:
        return Settings.model_validate(self.settings())
