"""Send locally edited packages to a running cluster (`Cluster.sync_software`)."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._common.progress import Message, Progress
from terradask._software.refused import wheel_refused
from terradask.errors import DocumentChanged, HostFailed
from terradask_host.commands import UpdatePackages

if TYPE_CHECKING:
    from terradask._clusters.deployment import Deployment
    from terradask._dask.connection import SchedulerConnection
    from terradask._dask.threads import Call
    from terradask._software.local_wheels import LocalWheel

logger = logging.getLogger("terradask")

#: Most hosts in a message.
_SHOWN = 5

_WHEEL_LINE = re.compile(r"^(\S+) @ wheels/([0-9a-f]{64})/", re.MULTILINE)
_WHEEL_KEY = re.compile(r"^(\S+) @ (wheels/\S+)$", re.MULTILINE)
_CONDA_LINE = re.compile(r"^conda(?:-installer)? ", re.MULTILINE)
#: At the start of a line.
_NAME = re.compile(r"^([a-z0-9-]+)(?===| @ )", re.MULTILINE)


@dataclass(eq=False, repr=False)
class PackageUpdates:
    """Rebuild packages that were installed from local sources, and send the changed ones."""

    deployment: Deployment
    connection: SchedulerConnection
    call: Call
    progress: Progress
    #: SHA-256 of the hosts' wheels, by package.
    _sent: dict[str, str] = field(default_factory=dict, init=False)

    async def sync_software(self) -> list[str]:
        """Bring packages that were edited since the start to the running cluster.

        Rebuilds packages that were installed from a folder, an archive or a repository, and
        installs those that changed on all hosts, including later ones. All workers restart, a
        quarter at a time: their results move to other workers first, if these have memory, and
        interrupted tasks run again. The scheduler keeps what it has imported. Packages from an
        index change only at the next start; if a changed package needs one that hosts don't have, a
        warning names it.

        Returns
        -------
        list of str
            The packages that have changed. If there are none, nothing restarts.

        Raises
        ------
        SoftwareUnusable
            When a package can't be built, or a module of it has a syntax error that it didn't have
            at the start. Nothing is sent then.
        HostFailed
            When a host can't install one: it runs what it had.
        DocumentChanged
            When ``software.lock`` isn't the one that the run was started with.
        ClusterStopped
            When the cluster doesn't run any more.
        VersionMismatch
            When its hosts run an older terradask.

        Notes
        -----
        Permission needed: ``s3:GetObject`` on the cluster's ``software.lock``. The packages travel
        over the connection to the scheduler.
        """
        name = self.connection.health.name
        lock = await self.call(self._run_lock)
        wheels = await self.call(partial(self._changed, lock))
        if not wheels:
            return []
        for warning in await self.call(partial(self._missing_requirements, wheels, lock)):
            logger.warning("cluster %s: %s", name, warning)
        names = sorted(wheel.name for wheel in wheels)
        self.progress(Message(f"{name}: sending {', '.join(names)}, and restarting workers"))
        command = UpdatePackages({wheel.filename: wheel.content for wheel in wheels})
        answer = await self.connection.send(command)
        if answer["failed"]:
            why = [f"{address}: {text}" for address, text in sorted(answer["failed"].items())]
            more = f"; and {len(why) - _SHOWN} others" if len(why) > _SHOWN else ""
            raise HostFailed(
                f"Packages can't be installed on hosts of cluster {name!r}.",
                cluster=name,
                reason="; ".join(why[:_SHOWN]) + more,
                advice="correct the error that the installer reports; or stop and start the "
                "cluster, which rebuilds its environment",
            )
        self._sent |= {wheel.name: wheel.sha256 for wheel in wheels}
        if answer["lost"]:
            workers = ", ".join(map(str, answer["lost"]))
            logger.warning(
                "cluster %s: results of %s didn't fit on other workers, and are recomputed if "
                "needed",
                name,
                workers,
            )
        return names

    def _changed(self, lock: str) -> list[LocalWheel]:
        from terradask._software.indexes.indexes import read_indexes
        from terradask._software.local_modules import NAME as LOCAL_MODULES
        from terradask._software.local_modules import build_modules
        from terradask._software.local_wheels import build_wheel

        known = dict(_WHEEL_LINE.findall(lock)) | self._sent
        environ = read_indexes(os.environ).environ(os.environ)
        architecture = self.deployment.descriptor.architecture
        built = []
        for name in sorted(known):
            if name == LOCAL_MODULES:
                built.append(build_modules(Path.cwd(), _NAME.findall(lock)))
                continue
            # A package that a lock file lists may not be installed locally.
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                installed = importlib.metadata.distribution(name)
                built.append(build_wheel(installed, architecture, environ))
        changed = [wheel for wheel in built if wheel.sha256 != known[wheel.name]]
        for wheel in changed:
            self._check_syntax(wheel, lock)
        return changed

    def _check_syntax(self, wheel: LocalWheel, lock: str) -> None:
        """Refuse a module with a new syntax error. Errors that the run was started with stay: some
        packages have files for other Python versions.
        """
        from terradask._software.local_wheels import syntax_errors

        if not (errors := syntax_errors(wheel.content)):
            return
        keys = dict(_WHEEL_KEY.findall(lock))
        before = self.deployment.objects.read_bytes(keys[wheel.name])
        known = syntax_errors(before) if before else {}
        if new := [text for path, text in errors.items() if path not in known]:
            raise wheel_refused(wheel.name, new[0])

    def _missing_requirements(self, wheels: Sequence[LocalWheel], lock: str) -> list[str]:
        """Return a sentence for each package with requirements that hosts don't have."""
        from terradask._software.hosts import host_markers
        from terradask._software.local_wheels import dependency_names
        from terradask._software.scan import OWN

        if _CONDA_LINE.search(lock):
            # Conda packages may have other names.
            return []
        there = {OWN, *_NAME.findall(lock)}
        markers = host_markers(self.deployment.descriptor.architecture)
        return [
            f"{wheel.name} needs {', '.join(lacking)}, which the run was started without: "
            "distributed's PipInstall installs it on running hosts, and the next start brings "
            "the locally installed packages"
            for wheel in wheels
            if (lacking := sorted(dependency_names(wheel.content, markers) - there))
        ]

    def _run_lock(self) -> str:
        """Return ``software.lock``, with a line for each wheel that the run was started with."""
        from terradask._observe.store import SOFTWARE
        from terradask_host.documents import sha256_of

        text = self.deployment.objects.read_bytes(SOFTWARE) or b""
        if sha256_of(text) != self.connection.attachment.keys.sha256.get(SOFTWARE):
            raise DocumentChanged(SOFTWARE, cluster=self.connection.health.name)
        return text.decode()
