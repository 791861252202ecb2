"""Check the hosts' packages before resources are created: refuse missing ones, report the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._clusters.deployment import Deployment
from terradask._common.naming import some
from terradask._common.progress import Message, Progress, Warned
from terradask._software.archive_hashes import lock_file_path
from terradask._software.local_modules import imported_unsent_modules
from terradask._software.named_environments import NamedEnvironments
from terradask._software.package_sync import (
    describe_differences,
    describe_packages,
    lock_for_hosts,
    package_sync_settings,
)
from terradask._software.software_file import software_of
from terradask._software.sync import PackageSync

if TYPE_CHECKING:
    from terradask_stacks.settings import ClusterSettings

#: Most names in a message.
_SHOWN = 10


def check_packages(
    deployment: Deployment,
    settings: ClusterSettings,
    root: Path | None,
    *,
    architecture: str,
    progress: Progress,
) -> None:
    """Lock a cluster's packages as its start does, report them, and warn of missing packages and
    other versions. Raises as `lock_for_hosts`.
    """

    def report(text: str) -> None:
        progress(Message(f"{deployment.name}: {text}", kept=True))

    software, sync = software_of(settings, root), package_sync_settings(settings, os.environ)
    resolved = bool(sync) or isinstance(software, Path | str)
    if resolved:
        progress(Message(f"{deployment.name}: resolving packages for hosts"))
    lock = lock_for_hosts(
        software,
        sync,
        architecture=architecture,
        lock_file=lock_file_path(settings, root),
        named=NamedEnvironments(deployment.aws, deployment.bucket)
        if isinstance(software, str)
        else None,
        jupyter=settings.jupyter,
    )
    if resolved or software:
        report(describe_packages(lock))
    if imported := imported_unsent_modules(settings):
        report(
            f"hosts don't get {some(imported, _SHOWN)}, which this process has "
            "imported from its own folder: local_modules=True sends that folder's modules"
        )
    if not sync and PackageSync.of(settings):
        report("package_sync is off on the embedded AWS, whose hosts run in its own environment")
    if differences := describe_differences(lock):
        progress(Warned(differences))
