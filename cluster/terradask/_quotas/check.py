"""AWS's quotas of vCPUs before a launch: looked up meanwhile, with three calls in all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from terradask._aws.session import Aws
from terradask._quotas.facts import quota_limit, running_beside, vcpus_in_use, vcpus_of
from terradask._quotas.launch_needs import (
    Allowance,
    Hosts,
    Launch,
    describe,
    quotas_of,
    refusal,
    shortages,
)
from terradask.errors import AccessDenied
from terradask_modules.names import TAG_CLUSTER, TAG_WORKSPACE

#: As long is waited for AWS's answer where what went on meanwhile was faster.
PATIENCE_SECONDS = 5.0


class LaunchCheck:
    """Looks up what an account may launch, in a thread of its own, from its making on.

    Permissions needed: ``servicequotas:GetServiceQuota``, ``GetAWSDefaultServiceQuota``,
    ``ec2:DescribeInstances``, ``DescribeInstanceTypes``. Without them nothing is refused.
    """

    def __init__(
        self,
        aws: Aws,
        launch: Launch,
        *,
        workspace: str,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._launch = launch
        self._patience_seconds = patience_seconds
        self._answer: Future[Allowance] = Future()

        def read() -> None:
            try:
                self._answer.set_result(
                    look_up_allowance(
                        aws, launch.at_most, workspace=workspace, cluster=launch.cluster
                    )
                )
            except Exception as error:  # noqa: BLE001  whatever it is: `_allowance` warns, and nothing fails for it
                self._answer.set_exception(error)

        # The end of the process doesn't wait for it.
        threading.Thread(target=read, name="terradask-quotas", daemon=True).start()

    def before_plan(self, warn: Callable[[str], None]) -> None:
        """Refuse a cluster that can never start; warn if it can't now. Raises `QuotaExceeded`."""
        allowance = self._allowance(warn)
        if allowance is None:
            return
        self._refuse(allowance.alone())
        for short in shortages(self._launch.at_start, allowance):
            warn(
                f"{self._launch.cluster}: starting it now would exceed AWS's quotas, for "
                f"{describe(short, allowance)}"
            )
        self._warn_of_most(allowance, warn)

    def before_launch(self, warn: Callable[[str], None]) -> None:
        """Refuse a cluster that can't start now. Raises `QuotaExceeded`."""
        allowance = self._allowance(warn)
        if allowance is not None:
            self._refuse(allowance)
            self._warn_of_most(allowance, warn)

    def _refuse(self, allowance: Allowance) -> None:
        short = shortages(self._launch.at_start, allowance)
        if short:
            raise refusal(self._launch.cluster, short, allowance)

    def _warn_of_most(self, allowance: Allowance, warn: Callable[[str], None]) -> None:
        alone = allowance.alone()
        for short in shortages(self._launch.at_most, alone):
            warn(
                f"{self._launch.cluster}: max_workers is more than AWS's quotas let this account "
                f"run, which is {short.fits} of {describe(short, alone)}; "
                "`terradask quotas --request` requests more"
            )

    def _allowance(self, warn: Callable[[str], None]) -> Allowance | None:
        try:
            return self._answer.result(self._patience_seconds)
        except Exception as error:  # noqa: BLE001  AWS has the last word about a launch anyway
            warn(f"{self._launch.cluster}: {not_checked(error)}")
            return None


def not_checked(error: Exception) -> str:
    """Return why quotas weren't checked, for people."""
    if isinstance(error, AccessDenied):
        return f"AWS's vCPU quotas are not checked: this caller lacks {error.action}"
    if isinstance(error, TimeoutError):
        return "AWS's vCPU quotas are not checked: AWS doesn't answer"
    return f"AWS's vCPU quotas are not checked: {error}"


def look_up_allowance(
    aws: Aws, hosts: Iterable[Hosts], *, workspace: str, cluster: str
) -> Allowance:
    """Ask AWS what an account may have of the vCPUs that hosts take, and what runs beside a
    cluster.

    A call for each quota, mostly one, and two for what runs: one more for each further 1,000
    instances. What runs is counted and not read from CloudWatch, whose metrics of usage are five
    minutes old.
    """
    hosts = list(hosts)
    quotas = sorted(quotas_of(hosts))
    types = {name for each in hosts for source in each.sources for name in source.instance_types}
    service_quotas, ec2 = aws.client("service-quotas"), aws.client("ec2")
    with ThreadPoolExecutor(8) as pool:
        limits = pool.map(lambda quota: quota_limit(service_quotas, quota), quotas)
        running = running_beside(ec2, {TAG_WORKSPACE: workspace, TAG_CLUSTER: cluster})
        vcpus = vcpus_of(ec2, types | {name for name, _ in running})
        in_use = vcpus_in_use(running, vcpus)
        known = {
            quota: int(limit)
            for quota, limit in zip(quotas, limits, strict=True)
            if limit is not None
        }
    return Allowance(aws.region, vcpus, known, in_use)
