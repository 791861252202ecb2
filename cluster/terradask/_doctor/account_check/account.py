"""The free steps: what can be known of an account before anything is made in it."""

from __future__ import annotations

import datetime
import email.utils
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, get_args

from terradask._aws.free_plan import eligible_types
from terradask._aws.listing import listed, listed_zones
from terradask._aws.own_address import own_cidr
from terradask._aws.session import Aws
from terradask._catalog.instance_types.catalog import load_catalog, named_catalog
from terradask._catalog.prices.price_list import pricing_region, unavailable
from terradask._catalog.prices.prices import PriceKey, Product
from terradask._catalog.prices.products import fields_of, query_for
from terradask._catalog.prices.running import (
    RunningHost,
    Volumes,
    hourly_usd,
    parts_of_host,
    parts_of_secret,
)
from terradask._common.progress import Progress, silent
from terradask._doctor.account_check.place import (
    CLUSTER,
    DISK_GIB,
    LEAST_MEMORY_MIB,
    MOST_WORKERS,
    cluster_settings,
    smoke_settings,
)
from terradask._doctor.account_check.rights import check_rights
from terradask._doctor.account_check.steps import Step, StepResult
from terradask._doctor.doctor import TOOLCHAIN, check_account_plan, check_service_roles, examine
from terradask._workspace.caller_scope import caller_scope
from terradask._workspace.host_packages import packages_folder
from terradask.errors import TerradaskError
from terradask_stacks.settings import ClusterSettings, Settings

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace

#: AWS refuses calls from 15 minutes on; less already breaks certificates and reports.
_MOST_SKEW_SECONDS = 300


@dataclass
class Account:
    """Looks at an account, with the user's own workspace."""

    workspace: Workspace
    progress: Progress = silent
    #: What the steps have found.
    zone: str = ""
    instance_types: list[str] = field(default_factory=list)
    disk_gib: int = DISK_GIB
    hourly_usd: Decimal | None = None
    #: Where the check's clients come from; None if nothing has to be let in.
    own_cidr: str | None = None
    #: Types of AWS's Free plan, if the account is on it.
    _eligible: tuple[str, ...] = ()

    @property
    def _aws(self) -> Aws:
        return self.workspace.aws

    def who_calls(self) -> list[Step]:
        """Return the steps that all others need."""
        return [
            Step("machine", "Python, Node, Terraform and the provider are here", self._machine),
            Step("identity", "AWS accepts the credentials", self._identity),
        ]

    def steps(self) -> list[Step]:
        """Return the other steps, in the order in which they need each other."""
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
        # Who calls stays here: the report is for others.
        kind = self._aws.caller_arn.split(":")[5].partition("/")[0]
        result.facts |= {"principal": kind, "partition": self._aws.partition}

    def _clock(self, result: StepResult) -> None:
        answer = self._aws.client("sts").get_caller_identity()
        told = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        if told is None:
            return
        here = datetime.datetime.now(datetime.UTC)
        ahead = (here - email.utils.parsedate_to_datetime(told)).total_seconds()
        result.facts["seconds_ahead_of_aws"] = round(ahead)
        if abs(ahead) > _MOST_SKEW_SECONDS:
            raise TerradaskError(
                "this machine's clock is wrong",
                given=f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} AWS",
                allowed=f"at most {_MOST_SKEW_SECONDS} s",
                advice="set the clock, and have it kept (NTP)",
            )

    def _region(self, result: StepResult) -> None:
        self._aws.check_region()
        zones = listed_zones(self._aws.client("ec2"))
        result.facts |= {"region": self._aws.region, "zones": zones}
        if not zones:
            raise TerradaskError(
                "the region has no zone for this account",
                given=self._aws.region,
                advice="open the region for the account, or choose another: workspace.region",
            )

    def _account_plan(self, result: StepResult) -> None:
        finding = check_account_plan(self._aws, self._settings)
        result.facts["found"] = finding.found
        if not finding.ok:
            self._eligible = eligible_types(self._aws)
            result.facts["types"] = self._eligible

    def _service_roles(self, result: StepResult) -> None:
        # A missing one is made with the network.
        result.facts["found"] = check_service_roles(self._aws).found

    def _instance_type(self, result: StepResult) -> None:
        from terradask._synthesis.resolve_hardware import find_hardware

        # This caller has to be able to ask, whatever an earlier one has left on disk.
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
        # One of each product, whatever the check itself takes.
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
        if quotes.problems:
            missing = "; ".join(f"{key}: {why}" for key, why in quotes.problems.items())
            raise TerradaskError(
                "AWS's price list doesn't answer for everything",
                given=missing,
                advice="plans then show no cost; the caller needs pricing:GetProducts and "
                "ec2:DescribeSpotPriceHistory",
            )
        return None

    def _usage_types(self, key: PriceKey) -> list[str]:
        """Return what the price list calls the products that a query finds."""
        pricing = Aws(pricing_region(key.region), attempts=2).client("pricing")
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
            return 'with connect = "ssm" nothing has to be let in'
        self.own_cidr = own_cidr(user.workspace.own_address_url)
        return None

    def _rights(self, result: StepResult) -> str | None:
        return check_rights(self._aws, caller_scope(self._settings, self._aws), result)

    def _cluster(self) -> ClusterSettings:
        """Return the check's cluster, of types that the account may launch."""
        if not self._eligible:
            return self._settings.clusters[CLUSTER]
        catalog = named_catalog(self._aws, self._eligible)
        usable = [
            name
            for name in self._eligible
            if (one := catalog.types.get(name)) is not None
            and one.architecture == "x86_64"
            and one.memory_mib >= LEAST_MEMORY_MIB
        ]
        if not usable:
            raise TerradaskError(
                "AWS's Free plan has no type that is large enough for a worker here",
                given=", ".join(self._eligible),
                allowed=f"an x86-64 type with {LEAST_MEMORY_MIB} MiB",
                advice="upgrade the account to the Paid plan, or choose another region",
            )
        settings = cluster_settings(self.workspace.settings, types=usable)
        return type(self._settings.cluster).model_validate(settings)

    def settings(self, name: str = "smoke", *, until: str = "") -> dict[str, Any]:
        """Return the check's settings, as far as the steps have found what they need."""
        user = self.workspace
        return smoke_settings(
            user.settings,
            name,
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
