"""Warnings if a running cluster is scaled beyond AWS's quotas, which are read once.

They are not errors: AWS may raise a quota meanwhile, other instances may end, and AWS launches as
many as the quota allows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from terradask._aws.session import Aws
from terradask._deployments.documents import Descriptor

if TYPE_CHECKING:
    from terradask._quotas.launch_needs import Allowance


class ScaleQuotas:
    """Warns of numbers of workers for which there is no room, without holding up the call.

    Permissions needed: those of `LaunchCheck`; without them one warning is logged, and no more.
    """

    def __init__(
        self,
        aws: Aws,
        descriptor: Descriptor,
        warn: Callable[[str], None],
        *,
        at_first: Mapping[str, int],
    ) -> None:
        self._aws = aws
        self._descriptor = descriptor
        self._warn = warn
        self._considered = dict(at_first)
        self._allowance: Allowance | None = None
        self._was_read = False
        self._lock = threading.Lock()

    def consider(self, numbers: Mapping[str, int]) -> None:
        """Check new numbers in the background."""
        grown = any(number > self._considered.get(group, 0) for group, number in numbers.items())
        self._considered.update(numbers)
        if grown:
            threading.Thread(
                target=self._check,
                args=(dict(self._considered),),
                name="terradask-quotas",
                daemon=True,
            ).start()

    def _check(self, numbers: Mapping[str, int]) -> None:
        from terradask._deployments.launch import deployed_launch
        from terradask._quotas.check import look_up_allowance, not_checked
        from terradask._quotas.launch_needs import describe, more_command, shortages

        launch = deployed_launch(self._descriptor, numbers)
        with self._lock:
            if not self._was_read:
                self._was_read = True
                try:
                    self._allowance = look_up_allowance(
                        self._aws,
                        launch.at_most,
                        workspace=self._descriptor.workspace,
                        cluster=self._descriptor.cluster,
                    )
                except Exception as error:  # noqa: BLE001  AWS itself enforces its quotas at the launch
                    self._warn(not_checked(error))
            allowance = self._allowance
        if allowance is None:
            return
        short = shortages(launch.at_start, allowance)
        for one in short:
            self._warn(
                f"AWS will launch {one.fits} at most of {describe(one, allowance)}; more: "
                f"{more_command([one], allowance)}"
            )
