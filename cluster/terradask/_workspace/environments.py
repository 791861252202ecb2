"""``Environments``: create, compare and build the named environments of a workspace."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from terradask._aws.s3 import as_json
from terradask._aws.session import Aws
from terradask._clusters.built_environments import (
    environment_id,
    not_built,
    wait_for_archive,
)
from terradask._clusters.deployment import Deployment
from terradask._clusters.start import bootable_baseline
from terradask._common.clock import utc_text
from terradask._observe.record import ClusterRecord
from terradask._observe.store import SOFTWARE
from terradask._software.lock import SoftwareLock
from terradask._software.lock_from_file import lock_file_packages, lock_requirements
from terradask._software.named_environments import (
    NamedEnvironment,
    NamedEnvironments,
    environment_not_found,
)
from terradask._software.software_file import software_of
from terradask.errors import InvalidInput
from terradask_host.documents import EnvironmentArchive
from terradask_modules.frameworks import installed_version
from terradask_stacks.loading import LoadedSettings
from terradask_stacks.settings.software import DEFAULT_ENVIRONMENT, EnvironmentSettings

_UPLOAD_SECONDS = 600.0


@dataclass(frozen=True)
class Environments:
    """The named environments of one workspace."""

    #: The settings with the sections ``[environments.NAME]``.
    loaded: LoadedSettings
    aws: Aws
    bucket: str

    @property
    def stored(self) -> NamedEnvironments:
        """The environments in the bucket."""
        return NamedEnvironments(self.aws, self.bucket)

    def declared(self) -> list[str]:
        """Return the names in the settings."""
        return sorted(self.loaded.settings.environments)

    def create(self, name: str) -> tuple[NamedEnvironment, bool]:
        """Resolve an environment for hosts, and write it to the bucket; return it, and whether it
        has changed.

        Raises `SoftwareUnusable` for an undeclared name, `InvalidInput` for the name of a package,
        and as `lock_file_packages`.
        """
        settings = self.loaded.settings.environment_named(name)
        if settings is None:
            raise environment_not_found(name, sorted({DEFAULT_ENVIRONMENT, *self.declared()}))
        _check_no_package(name)
        lock = self._lock(settings)
        found = NamedEnvironment.of_lock(
            name,
            lock,
            settings.architecture,
            at=utc_text(),
            by=self.aws.caller_arn,
            declaration=self._declaration(settings),
        )
        return found, self.stored.write(found, lock)

    def differs(self, found: NamedEnvironment) -> bool:
        """Return whether an environment's settings or file have changed since its creation."""
        settings = self.loaded.settings.environments.get(found.name)
        if settings is None or not found.declaration:
            return False
        return self._declaration(settings) != found.declaration

    def _declaration(self, settings: EnvironmentSettings) -> str:
        declared = {"software": settings.software, "architecture": settings.architecture}
        named = software_of(settings, self.loaded.root)
        content = named.read_bytes() if isinstance(named, Path) and named.is_file() else b""
        return hashlib.sha256(as_json(declared) + content).hexdigest()

    def _lock(self, settings: EnvironmentSettings) -> SoftwareLock:
        root, architecture = self.loaded.root, settings.architecture
        named = software_of(settings, root)
        if isinstance(named, Path):
            return lock_file_packages(named, architecture, os.environ)
        return lock_requirements(named, root / "terradask.toml", architecture, os.environ)

    def keep_built(self, deployment: Deployment, name: str) -> EnvironmentArchive:
        """Wait for the environment that a cluster's scheduler host builds, and publish it for other
        clusters. Raises `HostFailed`, and as `Deployment.attach`.
        """
        attachment = deployment.attach(timeout_seconds=_UPLOAD_SECONDS)
        record = ClusterRecord(self.aws, self.bucket, deployment.name)
        archive = wait_for_archive(
            record, attachment.run, attachment.keys, timeout_seconds=_UPLOAD_SECONDS
        )
        lock_text = (record.objects.read_bytes(SOFTWARE) or b"").decode()
        lock = self.stored.lock(name, record.descriptor.architecture, os.environ)
        if lock.to_requirements() != lock_text:
            raise not_built(
                record.name,
                f"it was started at {attachment.run.started_at} by {attachment.run.owner}, and the "
                f"packages of {name!r} have changed since",
                advice=f"after the end of that build, run: terradask env build {name}",
            )
        identity = environment_id(
            record, bootable_baseline(record), attachment.run.python, lock_text
        )
        self.stored.write_archive(name, identity, archive)
        return archive


def _check_no_package(name: str) -> None:
    version = installed_version(name)
    if version is None:
        return
    raise InvalidInput(
        f"Environment {name!r} has the name of a locally installed package.",
        given=f"{name} {version}",
        allowed="a name that no package has",
        advice=f"give [environments.{name}] another name: Cluster(software={name!r}) means the "
        "package",
    )
