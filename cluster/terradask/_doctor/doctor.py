"""Check the requirements of terradask: findings, with a fix for each."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from terradask._aws.free_plan import eligible_types
from terradask._aws.service_roles import AUTOSCALING, ServiceRole, find_service_roles
from terradask._aws.session import Aws
from terradask._aws.translation import reason_of
from terradask._catalog.quotas.check import clusters_of
from terradask._doctor.budget_check import check_budgets
from terradask._doctor.finding import Finding
from terradask._doctor.provider_check import check_provider, copy_for_another
from terradask._doctor.volume_key_check import check_volume_key
from terradask._synthesis.framework_environment import FrameworkEnvironment
from terradask._synthesis.resolve_cluster import named_or_default
from terradask._terraform import provider_mirror
from terradask._terraform.binary import find_terraform
from terradask._terraform.platforms import WITHOUT_TERRAFORM
from terradask.errors import (
    AccessDenied,
    AwsError,
    NoBaseline,
    ProviderUnavailable,
    TerradaskError,
)
from terradask_modules.frameworks import versions_here
from terradask_modules.ingress import ports_text

if TYPE_CHECKING:
    from terradask._network.baseline import Baseline
    from terradask._workspace.workspace import Workspace
    from terradask_modules.egress import Egress
    from terradask_stacks.settings import Settings


MINIMUM_PYTHON = (3, 11)


@dataclass
class _Examiner:
    _environ: Mapping[str, str]
    _fix: bool

    def run(self, name: str, check: Callable[[_Examiner], Finding]) -> Finding:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return check(self)
        except (BotoCoreError, ClientError) as error:
            # The other checks still report their findings.
            return Finding(name, False, reason_of(error), "AWS's message: correct the cause")
        except TerradaskError as error:
            found = error.problem if error.given is None else f"{error.problem}: {error.given}"
            return Finding(name, False, found, error.advice)

    @cached_property
    def _workspace(self) -> Workspace:
        from terradask._workspace.workspace import Workspace

        return Workspace.load()

    @property
    def _aws(self) -> Aws:
        return self._workspace.aws

    def _platform(self) -> Finding:
        system = platform.system()
        found = f"{system} {platform.machine()}"
        if system in ("Linux", "Darwin"):
            return Finding("platform", True, found)
        if system == "Windows":
            return Finding("platform", True, f"{found}: {WITHOUT_TERRAFORM}")
        return Finding("platform", False, found, "use Linux, macOS or Windows")

    def _python(self) -> Finding:
        ok = sys.version_info >= MINIMUM_PYTHON
        fix = None if ok else f"use Python {'.'.join(map(str, MINIMUM_PYTHON))} or newer"
        return Finding("python", ok, platform.python_version(), fix)

    def _synthesis(self) -> Finding:
        environment = FrameworkEnvironment(self._environ)
        environment.other_python()
        if environment.kind == "not made" and not self._fix:
            return Finding(
                "synthesis",
                True,
                "CDKTF is not in this environment: the first plan makes one for it, in "
                f"{environment.python.parents[1]}, or terradask doctor --fix",
            )
        return Finding("synthesis", True, _described(environment, fix=self._fix))

    def _terraform(self) -> Finding:
        binary = find_terraform(self._environ)
        return Finding("terraform", True, f"{binary} ({binary.source}: {binary.command[-1]})")

    def _provider(self) -> Finding:
        program = find_terraform(self._environ).program
        if self._fix:
            provider_mirror.source_or_copy(self._environ, program)
        try:
            return check_provider(self._environ)
        except ProviderUnavailable as error:
            other = self._fix and copy_for_another(program)
            if not other:
                raise
            return Finding(
                "provider",
                False,
                f"{error.problem}; {other}",
                f"where {program.registry} can be reached, make a copy with {program.command} "
                "providers mirror, and unpack its archives",
            )

    def _settings(self) -> Finding:
        loaded = self._workspace
        where = loaded.settings_path or "defaults and environment; no terradask.toml"
        return Finding("settings", True, f"workspace {loaded.settings.workspace.name} ({where})")

    def _credentials(self) -> Finding:
        found = f"{self._aws.caller_arn} in account {self._aws.account_id}"
        return Finding("credentials", True, found)

    def _region(self) -> Finding:
        zones = self._aws.client("ec2").describe_availability_zones()["AvailabilityZones"]
        return Finding("region", True, f"{self._aws.region} with {len(zones)} zones")

    def _baseline(self) -> Finding:
        baseline = self._workspace.baseline()
        key = baseline.kms_key_arn
        return Finding(
            "network",
            True,
            f"{baseline.vpc_id} in {len(baseline.zones)} zones, by terradask "
            f"{baseline.terradask_version}; writes to its bucket name "
            + ("AES256" if key is None else f"aws:kms with {key}")
            + "".join(f"; {_admission(baseline, rule)}" for rule in baseline.egress),
        )


#: Check -> the check that it depends on, and how it is made.
_CHECKS: dict[str, tuple[str | None, Callable[[_Examiner], Finding]]] = {
    "platform": (None, _Examiner._platform),
    "python": (None, _Examiner._python),
    "synthesis": (None, _Examiner._synthesis),
    "terraform": (None, _Examiner._terraform),
    "provider": ("terraform", _Examiner._provider),
    "settings": (None, _Examiner._settings),
    "credentials": ("settings", _Examiner._credentials),
    "region": ("credentials", _Examiner._region),
    "account-plan": (
        "credentials",
        lambda one: check_account_plan(one._aws, one._workspace.settings),
    ),
    "service-roles": ("credentials", lambda one: check_service_roles(one._aws)),
    "volume-key": (
        "credentials",
        lambda one: check_volume_key(one._aws, one._workspace.settings.network.kms_key_arn),
    ),
    "network": ("credentials", _Examiner._baseline),
    "budgets": ("network", lambda one: check_budgets(one._aws, one._workspace.settings)),
    "host-packages": (
        "credentials",
        lambda one: check_host_packages(one._workspace, fix=one._fix),
    ),
}
CHECKS = tuple(_CHECKS)
#: Checks for Terraform and synthesis; the others need AWS.
TOOLCHAIN = CHECKS[:5]
_OF_TERRAFORM = frozenset(TOOLCHAIN) - {"platform", "python"}


def examine(
    checks: Iterable[str] = CHECKS, *, fix: bool = False, environ: Mapping[str, str] | None = None
) -> list[Finding]:
    """Check the requirements of terradask."""
    examiner = _Examiner(os.environ if environ is None else environ, fix)
    findings: dict[str, Finding] = {}
    for name in checks:
        needs, check = _CHECKS[name]
        if name in _OF_TERRAFORM and platform.system() == "Windows":
            findings[name] = Finding(name, True, "not needed on Windows", checked=False)
            continue
        needed = findings.get(needs or "")
        if needed is None or needed.ok:
            findings[name] = examiner.run(name, check)
        else:
            # Report the same error only once, at its origin.
            found = f"not checked: it depends on {needed.check}"
            findings[name] = Finding(name, False, found, checked=False)
    return list(findings.values())


def _described(environment: FrameworkEnvironment, *, fix: bool) -> str:
    """Return which framework synthesises, and where; with `fix` make terradask's own environment,
    again if it is damaged. Raises `SetupError`.
    """
    versions: Mapping[str, str]
    if environment.kind == "here":
        versions, where = versions_here(), "in this environment"
    else:
        versions, where = _checked(environment, fix=fix), f"in {environment.python}"
    return ", ".join(f"{name} {number}" for name, number in versions.items()) + f" {where}"


def _checked(environment: FrameworkEnvironment, *, fix: bool) -> Mapping[str, str]:
    environment.get()
    try:
        return environment.check()
    except TerradaskError:
        if environment.kind != "made" or not fix:
            raise
    environment.remake()
    return environment.check()


def _admission(baseline: Baseline, rule: Egress) -> str:
    """Return a destination of hosts, and what its owner must admit."""
    groups = ", ".join(baseline.groups_out(rule))
    is_public = rule.network is not None and rule.network.is_global
    admitted = "the public addresses of hosts or NAT gateways" if is_public else groups
    return f"lets hosts out to {rule.destination} at {rule.protocol} {ports_text(rule.ports)} " + (
        f"({rule.reason}), whose owner must admit {admitted}"
    )


def check_service_roles(aws: Aws) -> Finding:
    """Look for the service-linked roles for launches. Only Auto Scaling's is required.

    Permission needed: ``iam:GetRole`` on them; without it the check passes.
    """
    roles = find_service_roles(aws)
    found = ", ".join(map(_describe, roles))
    missing = next(
        (role for role in roles if role.service == AUTOSCALING and role.exists is False), None
    )
    if missing is None:
        return Finding("service-roles", True, found)
    return Finding(
        "service-roles", False, found, f"terradask apply network makes it; or: {missing.command}"
    )


def _describe(role: ServiceRole) -> str:
    if role.exists is None:
        return f"{role.name} is not visible to this caller"
    return f"{role.name} {'exists' if role.exists else 'is missing'}"


# ---- the host program's packages for hosts that boot ---------------------------------------------


_CHECK = "host-packages"


def check_host_packages(workspace: Workspace, *, fix: bool) -> Finding:
    """Look for the packages in the workspace's bucket, and with `fix` upload missing ones.

    Permissions needed: ``s3:GetObject`` on the host program, ``s3:ListBucket``; without them the
    check passes. With `fix` also ``s3:PutObject`` on ``host/*``.
    """
    try:
        missing = workspace.missing_host_packages()
    except NoBaseline:
        return Finding(_CHECK, True, "part of the network, which isn't deployed")
    except AccessDenied:
        return Finding(_CHECK, True, "not visible to this caller")
    if missing and fix:
        put = workspace.put_host_packages()
        return Finding(_CHECK, True, f"{len(put)} uploaded to s3://{workspace.bucket}")
    if not missing:
        return Finding(_CHECK, True, "all packages that hosts install at boot exist")
    found = "; ".join(f"{one}: no {', '.join(missing[one])}" for one in sorted(missing))
    return Finding(_CHECK, False, found, "terradask doctor --fix, or terradask apply network")


# ---- the types that the account may launch: a few small ones on AWS's Free plan ------------------


#: AWS (documented): The Free Tier API has its only endpoint in us-east-1.
#: https://docs.aws.amazon.com/general/latest/gr/billing.html
_HOME = "us-east-1"


def check_account_plan(aws: Aws, settings: Settings) -> Finding:
    """Read the account's plan, and the types of the Free plan: clusters need others unless the
    settings name these.

    Permissions needed: ``freetier:GetAccountPlanState``, ``ec2:DescribeInstanceTypes``; without
    them the check passes.
    """
    from botocore.exceptions import ClientError

    if aws.partition != "aws":
        return Finding("account-plan", True, f"{aws.partition} has no Free plan")
    try:
        state = aws.in_region(_HOME).client("freetier").get_account_plan_state()
        if state["accountPlanType"] != "FREE":
            return Finding("account-plan", True, "not the Free plan: every type can be launched")
        eligible = eligible_types(aws)
    except (AwsError, ClientError) as error:
        found = f"not visible to this caller: {' '.join(str(error).split())}"
        return Finding("account-plan", True, found)
    groups = [
        types for one in clusters_of(settings).values() for types in named_or_default(one).values()
    ]
    if all(set(types) & set(eligible) for types in groups):
        return Finding("account-plan", True, "AWS's Free plan, which has types of each group")
    return Finding(
        "account-plan",
        False,
        "AWS's Free plan, which launches a few small types only",
        "upgrade to the Paid plan, or set worker_vm_types and scheduler_vm_types to its types: "
        f"{', '.join(eligible)}",
    )
