"""A host's configuration before it calls AWS: ``host.json``, paths, and the machine's size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from terradask_host import machine
from terradask_host.documents import FORMAT, Run
from terradask_host.errors import ConfigInvalid
from terradask_host.mount_list import HostMount, mount_environ, mounts_of
from terradask_host.timing import Timing

ROOT_VARIABLE = "TERRADASK_HOST_ROOT"
PYTHON_VARIABLE = "TERRADASK_HOST_PYTHON"
CPU_VARIABLE = "TERRADASK_HOST_CPU_COUNT"
MEMORY_VARIABLE = "TERRADASK_HOST_MEMORY_BYTES"
LOOPBACK_VARIABLE = "TERRADASK_HOST_LOOPBACK"

#: A machine's own loopback.
LOOPBACK = "127.0.0.1"
METADATA_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"


class _Below:
    """A path below the root of `Paths`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, paths: Paths, owner: type | None = None) -> Path:
        return paths.root / self._path


@dataclass(frozen=True)
class Paths:
    """Paths of a host's files, all below the root (``/`` on an instance)."""

    root: Path

    #: Written by cloud-init.
    host_json = _Below("etc/terradask/host.json")
    #: Must be in memory: see `terradask_host.agent.keys`.
    keys = _Below("run/terradask")
    #: The unit's state directory and the home of its user.
    state = _Below("var/lib/terradask")
    #: The host program, as boot.sh installs it.
    programs = _Below("opt/terradask")

    #: Mark file: the instance's id, once its volumes and interfaces have its tags.
    tagged = _Below("var/lib/terradask/tagged")
    #: Mark file: this host was prepared for a warm pool, before any run of its own.
    prepared = _Below("var/lib/terradask/prepared")
    #: Mark file: this host has published that it gave up its scheduler.
    failure_published = _Below("var/lib/terradask/told-failed")

    #: Output of cloud-init and boot.sh; boot.sh lets the unit's group read it.
    boot_output = _Below("var/log/cloud-init-output.log")
    #: Number of shipped bytes of the boot's output, for a restarted host program.
    boot_output_shipped = _Below("var/lib/terradask/boot-output-shipped")

    #: Folder of software environments.
    environments = _Below("var/lib/terradask/environments")
    #: Folder of the container image's files.
    container = _Below("var/lib/terradask/container")
    #: Dask's local directory, where workers spill.
    scratch = _Below("var/lib/terradask/scratch")
    #: Folder of notebooks, which exists as long as the host.
    notebooks = _Below("var/lib/terradask/notebooks")

    #: Socket at which systemd starts containers.
    container_socket = _Below("run/terradask-container.socket")
    #: Socket of the run's secrets; only the host program's user can connect.
    secrets_socket = _Below("run/terradask/secrets.sock")
    #: Socket of a scheduler's HTTP server; only its user can connect.
    dashboard_socket = _Below("run/terradask/dashboard.sock")
    #: Runtime folder of the notebook server and its kernels, in memory.
    jupyter = _Below("run/terradask/jupyter")
    #: Socket of the notebook server; only its user can connect.
    jupyter_socket = _Below("run/terradask/jupyter/server.sock")

    @classmethod
    def of_environ(cls, environ: Mapping[str, str]) -> Self:
        """Return those below the root that the environment names."""
        return cls(Path(environ.get(ROOT_VARIABLE) or "/"))


@dataclass(frozen=True)
class HostConfig:
    """``host.json`` with the environment's overrides.

    Parameters
    ----------
    python
        A Python that already has the environment; nothing is installed then. Default: none.
    metadata_endpoint
        URL of the instance metadata service.
    cpu_count, memory_bytes
        Processors and memory that this process may use.
    loopback
        The machine's loopback address; differs where several machines share one.
    gpu_count
        NVIDIA GPUs of the machine.
    notify_topic_arn
        The topic for notices of the cluster's end, or None.
    mounts
        File systems that ``boot.sh`` has mounted for tasks.
    """

    workspace: str
    region: str
    bucket: str
    log_group: str
    paths: Paths
    timing: Timing
    python: Path | None
    metadata_endpoint: str
    cpu_count: int
    memory_bytes: int
    loopback: str = LOOPBACK
    gpu_count: int = 0
    notify_topic_arn: str | None = None
    mounts: tuple[HostMount, ...] = ()

    @property
    def mount_environ(self) -> dict[str, str]:
        """The variables by which tasks find what is mounted."""
        return mount_environ(self.mounts, self.paths.root)

    def of_run(self, run: Run) -> HostConfig:
        """Return the configuration with the time constants that ``life`` of ``run.json`` sets."""
        silent_seconds = None if run.life is None else run.life.scheduler_silent_seconds
        if silent_seconds is None:
            return self
        return replace(self, timing=replace(self.timing, scheduler_silent_seconds=silent_seconds))


def load_config(environ: Mapping[str, str]) -> HostConfig:
    """Read ``host.json`` below the root that the environment names.

    Raises `ConfigInvalid` if the file is missing, not JSON, of another format, or lacks a name.
    """
    paths = Paths.of_environ(environ)
    document = parse_document(_read(paths.host_json), str(paths.host_json))
    python = environ.get(PYTHON_VARIABLE)
    return HostConfig(
        workspace=_text(document, "workspace"),
        region=_text(document, "region"),
        bucket=_text(document, "bucket"),
        log_group=_text(document, "log_group"),
        paths=paths,
        timing=Timing.from_environ(environ),
        python=Path(python) if python else None,
        metadata_endpoint=environ.get(METADATA_VARIABLE) or "http://169.254.169.254",
        cpu_count=_positive(environ, CPU_VARIABLE) or machine.cpu_count(),
        memory_bytes=_positive(environ, MEMORY_VARIABLE) or machine.memory_bytes(),
        loopback=environ.get(LOOPBACK_VARIABLE) or LOOPBACK,
        gpu_count=machine.count_on_bus(),
        notify_topic_arn=_topic(document),
        mounts=tuple(mounts_of(document)),
    )


def parse_document(text: str | bytes, source: str) -> dict[str, Any]:
    """Return a JSON document of format 1.

    Raises `ConfigInvalid` if it isn't one. The text itself is never part of the error.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{source} is not valid JSON: {type(error).__name__}.") from None
    if not isinstance(document, dict):
        raise ConfigInvalid(f"{source} is not a JSON object.", given=type(document).__name__)
    if "format" not in document:
        raise ConfigInvalid(
            f"{source} isn't a document of terradask: it names no format.",
            allowed=f"a document of format {FORMAT}, as a start of the cluster writes it",
            advice=(
                "Find out what replaced it, such as a rotation of secrets, and switch that off; "
                "then stop and start the cluster."
            ),
        )
    if document.get("format") != FORMAT:
        raise ConfigInvalid(
            f"{source} has a format that this host program does not know.",
            given=document.get("format"),
            allowed=str(FORMAT),
            advice="Deploy the network and start the cluster with the same version of terradask.",
        )
    return document


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigInvalid(
            f"{path} can't be read: {error.strerror}.",
            advice=(
                "cloud-init writes it from the instance's user data; see "
                "/var/log/cloud-init-output.log."
            ),
        ) from error


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigInvalid(f"host.json: {name} is not a string.", given=value)
    return value


def _topic(document: Mapping[str, Any]) -> str | None:
    """Return the topic; an earlier network has none."""
    name = "notify_topic_arn"
    arn = None if document.get(name) is None else _text(document, name)
    if arn is not None and len(arn.split(":")) != 6:
        raise ConfigInvalid(f"host.json: {name} is not the ARN of a topic.", given=arn)
    return arn


def _positive(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ConfigInvalid(f"{name} is not a positive whole number.", given=text)
    return value
