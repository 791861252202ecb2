"""One environment for all hosts of a run: the scheduler's host builds it, the others fetch it.

So the package index is read once, however many hosts there are. A host that can't fetch the
environment builds its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from terradask_host.agent.aws import error_code, is_aws_error
from terradask_host.agent.bound_run import SOFTWARE, BoundRun
from terradask_host.agent.environment import Environment
from terradask_host.agent.environment_archive import pack, unpack
from terradask_host.agent.object_stream import Download
from terradask_host.agent.objects import MISSING, ClusterObjects
from terradask_host.agent.retry import backoff
from terradask_host.documents import UNREADABLE, EnvironmentArchive
from terradask_host.environment_manifest import (
    BUILDING,
    EDITED,
    FAILED,
    READY,
    SEPARATE,
    EnvironmentManifest,
)
from terradask_host.errors import ConfigInvalid, EnvironmentFailed, HostError
from terradask_host.timing import Timing
from terradask_host.trouble import Trouble

MANIFEST, SCHEDULER = "environment.json", "scheduler.json"

#: Longest interval at which a worker's host checks for the environment.
_LOOK_SECONDS = 2.0
#: Time for parts in flight at a stop; later ones remain until the bucket's lifecycle removes them.
_CLOSE_SECONDS = 15.0


class Stopped(Exception):
    """Raised in an upload when its host stops."""


class Sharing:
    """The thread that uploads an environment while Dask starts, and its end."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self, upload: Callable[[], None]) -> None:
        """Call `upload` on a thread."""
        self._thread = threading.Thread(target=upload, name="environment-upload", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise `Stopped` after `close`."""
        if self._stopping.is_set():
            raise Stopped

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """End the upload, and wait until its parts are removed, at most `seconds`."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(seconds)


@dataclass(frozen=True)
class SharedEnvironment:
    """The environment of a run, on one of its hosts.

    Only the scheduler's role may write its archive in `objects`; the archive's name has
    `instance_id`, so that no two hosts write the same. `sharing` uploads it; `note` reports events
    to others.
    """

    environment: Environment
    bound: BoundRun
    objects: ClusterObjects
    _: KW_ONLY
    instance_id: str
    timing: Timing
    sharing: Sharing
    note: Callable[[str], None]

    def lead(self) -> Path:
        """Fetch an earlier host's environment or build it, and share it while Dask starts.

        Used by the scheduler's host. Return its Python. Raises `EnvironmentFailed` when the build
        fails; the run's other hosts then fail with the same reason.
        """
        try:
            found = self._manifest()
        except Exception as error:
            if not is_aws_error(error):
                raise
            self.environment.log(f"{MANIFEST} can't be read: {error}")
            found = None
        shared = found.archive if found is not None and found.state == READY else None
        built = self.bound.run.environment
        if self.environment.is_known():
            # An image has it, or an earlier host program has ended before it shared it.
            if shared is None and built is not None:
                self._write_manifest(READY, archive=built)
            elif shared is None:
                self.sharing.start(self._publish)
            return self.environment.interpreter
        for archive in (shared, built):
            fetched = None if archive is None else self._fetch(archive)
            if fetched is not None:
                if archive is not shared:
                    self._write_manifest(READY, archive=archive)
                return fetched
        self._write_manifest(BUILDING)
        try:
            python = self.environment.build()
        except HostError as error:
            self._write_manifest(FAILED, reason=str(error))
            raise
        self.sharing.start(self._publish)
        return python

    def follow(self) -> Path:
        """Fetch the environment, waiting for the scheduler's host, or build it. Return its Python.

        Used by all other hosts. Raises `EnvironmentFailed` when the scheduler's host or this one
        can't build it, `StopRequested` on a stop request.
        """
        environment = self.environment
        if environment.is_known():
            return environment.interpreter
        built = self.bound.run.environment
        fetched = None if built is None else self._fetch(built)
        if fetched is not None:
            return fetched
        found, why = self._wait()
        if found is not None and found.state == FAILED:
            raise EnvironmentFailed(
                f"The scheduler's host could not build the environment: {found.reason}"
            )
        if found is not None and found.archive is not None:
            fetched = self._fetch(found.archive)
            if fetched is not None:
                return fetched
            why = "the archive can't be used"
        environment.log(f"building an environment of its own: {why}")
        return environment.build()

    def _wait(self) -> tuple[EnvironmentManifest | None, str]:
        """Wait for the scheduler host's manifest; return it, or None with the reason."""
        began, unreadable = time.monotonic(), Trouble(self.environment.log)
        for pause in backoff(0.2, factor=1.5, ceiling_seconds=_LOOK_SECONDS):
            waited = time.monotonic() - began
            try:
                found = self._manifest()
                if found is not None and found.state in (READY, FAILED):
                    return found, ""
                if found is not None and found.state == SEPARATE:
                    return None, found.reason
                patience = self.timing.environment_share_seconds
                if found is None and waited > patience and self._scheduler_is_up():
                    return None, f"no message from the scheduler's host for {patience:.0f} s"
            except ConfigInvalid as error:
                # The scheduler's host writes it again; its address isn't needed here.
                unreadable.note(str(error))
            except Exception as error:
                if not is_aws_error(error):
                    raise
                if error_code(error) == "AccessDenied":
                    # An older terradask made the network, or the isolated cluster.
                    return None, f"{MANIFEST} can't be read: {error}"
            if waited > self.timing.environment_deadline_seconds:
                return None, f"nothing was ready within {waited:.0f} s"
            self.environment.events.pause(pause)
        raise AssertionError("backoff never ends")

    def _scheduler_is_up(self) -> bool:
        document = self.objects.read_document(SCHEDULER)
        return document is not None and document.get("run_id") == self.bound.run.run_id

    def _manifest(self) -> EnvironmentManifest | None:
        """Return the manifest that a host of this run wrote; another run's counts as missing."""
        try:
            document = self.objects.read_document(MANIFEST)
            found = None if document is None else EnvironmentManifest.read(document)
        except (ConfigInvalid, *UNREADABLE):
            return None
        if found is None or not found.is_proven(*self._proof):
            return None
        return found

    @property
    def _proof(self) -> tuple[bytes, str, str]:
        """The key of the proof, and its subject."""
        secret = self.bound.secret
        key = str(secret["scheduler"]["key"]).encode()
        return key, self.bound.run.run_id, secret["sha256"][SOFTWARE]

    def _write_manifest(self, state: str, **more: Any) -> None:
        """Write the manifest for the other hosts."""
        key, run_id, lock_sha256 = self._proof
        said = EnvironmentManifest(run_id, lock_sha256, state, **more).proven(key)
        try:
            self.objects.write_document(MANIFEST, said.to_document())
        except Exception as error:
            if not is_aws_error(error):
                raise
            self.environment.log(f"{MANIFEST} can't be written: {error}")

    def _publish(self) -> None:
        began = time.monotonic()
        name = f"{self.bound.run.run_id}-{self.instance_id}-{time.time_ns():x}.tar"
        key = f"{self.objects.environments}{name}"
        try:
            with self.objects.upload(key, on_write=self.sharing.check) as upload:
                pack(self.environment.folder, upload)
                # Before the object exists: later runs would use it too.
                if (self.environment.folder / EDITED).exists():
                    raise EnvironmentFailed("Files in the environment were edited meanwhile.")
                upload.complete()
            archive = EnvironmentArchive(key, upload.size, upload.sha256)
            is_current = self.bound.is_current(self.objects)
        except Stopped:
            self.environment.log("the environment isn't shared: this host stops")
            return
        except Exception as error:  # noqa: BLE001 - the others build their own
            self.environment.log(f"the environment can't be shared: {error}")
            self._write_manifest(SEPARATE, reason=f"the scheduler's host can't share it: {error}")
            return
        if not is_current:
            # A stop has deleted the object; it must not be created again.
            self.environment.log("the environment isn't shared: the run has ended")
            return
        self._write_manifest(READY, archive=archive)
        seconds = time.monotonic() - began
        self.environment.log(f"shared the environment, {upload.size} bytes, in {seconds:.1f} s")

    def _fetch(self, named: EnvironmentArchive) -> Path | None:
        """Return the Python of a fetched environment, or None if the fetch fails."""
        began = time.monotonic()
        environment = self.environment
        stopped = environment.events.pause
        try:
            with self.objects.download(
                named.key, named.size, on_read=lambda: stopped(0)
            ) as archive:
                python = environment.unpack(lambda folder: _unpack(archive, named, folder))
        except Exception as error:
            if not is_aws_error(error) and not isinstance(error, HostError | OSError):
                raise
            is_missing = is_aws_error(error) and error_code(error) in MISSING
            if named == self.bound.run.environment and is_missing:
                environment.log(f"{named.key} has expired")
            else:
                self.note(f"{named.key} was not used: {error}")
            return None
        seconds = time.monotonic() - began
        environment.log(f"fetched the environment, {named.size} bytes, in {seconds:.1f} s")
        return python


def _unpack(archive: Download, named: EnvironmentArchive, folder: Path) -> None:
    unpack(archive, folder)
    found = archive.rest_sha256()
    if found != named.sha256:
        raise EnvironmentFailed(
            "The environment's archive is not the one that the scheduler's host built.",
            given=f"SHA-256 {found}",
            allowed=named.sha256,
            advice="Find out who wrote it; stop and start the cluster.",
        )
