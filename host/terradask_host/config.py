"""What a host knows before it asks AWS: ``host.json``, its paths, and the machine's size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from terradask_host import machine
from terradask_host.documents import FORMAT, Run
from terradask_host.errors import ConfigInvalid
from terradask_host.timing import Timing

ROOT_VARIABLE = "TERRADASK_HOST_ROOT"
PYTHON_VARIABLE = "TERRADASK_HOST_PYTHON"
CPU_VARIABLE = "TERRADASK_HOST_CPU_COUNT"
MEMORY_VARIABLE = "TERRADASK_HOST_MEMORY_BYTES"
LOOPBACK_VARIABLE = "TERRADASK_HOST_LOOPBACK"

#: A machine's own loopback.
LOOPBACK = "127.0.0.1"
METADATA_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"


@dataclass(frozen=True)
class Paths:
    """Where a host keeps its files; every path lies below the root (``/`` on an instance)."""

    root: Path

    @property
    def host_json(self) -> Path:
        """``/etc/terradask/host.json``, written by cloud-init."""
        return self.root / "etc" / "terradask" / "host.json"

    @property
    def keys(self) -> Path:
        """``/run/terradask``: in memory, which `terradask_host.agent.keys` sees to."""
        return self.root / "run" / "terradask"

    @property
    def state(self) -> Path:
        """``/var/lib/terradask``: the unit's state directory and the home of its user."""
        return self.root / "var" / "lib" / "terradask"

    @property
    def tagged(self) -> Path:
        """The id of the instance, once its volumes and interfaces have its tags."""
        return self.state / "tagged"

    @property
    def failure_published(self) -> Path:
        """Is there once this host has told that its scheduler is given up."""
        return self.state / "told-failed"

    @property
    def boot_output(self) -> Path:
        """What cloud-init and boot.sh print; boot.sh lets the unit's group read it."""
        return self.root / "var" / "log" / "cloud-init-output.log"

    @property
    def boot_output_shipped(self) -> Path:
        """How many bytes of that are shipped, for a host program that is started again."""
        return self.state / "boot-output-shipped"

    @property
    def environments(self) -> Path:
        """Where software environments are built."""
        return self.state / "environments"

    @property
    def container(self) -> Path:
        """Where the container image's files are."""
        return self.state / "container"

    @property
    def container_socket(self) -> Path:
        """Where systemd starts containers."""
        return self.root / "run" / "terradask-container.socket"

    @property
    def programs(self) -> Path:
        """``/opt/terradask``: the host program, as boot.sh installs it."""
        return self.root / "opt" / "terradask"

    @property
    def scratch(self) -> Path:
        """Dask's local directory, where workers spill."""
        return self.state / "scratch"

    @property
    def notebooks(self) -> Path:
        """Where notebooks are kept, as long as the host lives."""
        return self.state / "notebooks"

    @property
    def dashboard_socket(self) -> Path:
        """Where Dask's HTTP server of a scheduler listens; its user alone connects there."""
        return self.keys / "dashboard.sock"

    @property
    def jupyter(self) -> Path:
        """Where the notebook server and its kernels keep what connects them: in memory."""
        return self.keys / "jupyter"

    @property
    def jupyter_socket(self) -> Path:
        """Where the notebook server listens; its user alone connects there."""
        return self.jupyter / "server.sock"


@dataclass(frozen=True)
class HostConfig:
    """``host.json`` with the environment's overrides.

    Parameters
    ----------
    workspace, region, bucket, log_group
        As in ``host.json``.
    paths
        Where files lie.
    timing
        Time constants.
    python
        A Python that already has the environment; nothing is installed then. Default: none.
    metadata_endpoint
        Where the instance metadata service answers.
    cpu_count
        Processors that the machine gives to this process.
    memory_bytes
        Memory that it gives.
    loopback
        The machine's loopback address. Another than usual where several machines share one.
    gpu_count
        NVIDIA GPUs of the machine.
    notify_topic_arn
        The topic that a scheduler's host tells of its cluster's end. None: it tells none.
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

    def of_run(self, run: Run) -> HostConfig:
        """Return the configuration with the time constants that ``life`` of ``run.json`` sets."""
        silent_seconds = None if run.life is None else run.life.scheduler_silent_seconds
        return (
            self
            if silent_seconds is None
            else replace(self, timing=replace(self.timing, scheduler_silent_seconds=silent_seconds))
        )


def load_config(environ: Mapping[str, str]) -> HostConfig:
    """Read ``host.json`` below the root that the environment names.

    Raises
    ------
    ConfigInvalid
        When the file is missing, no JSON, of another format, or lacks a name.
    """
    paths = Paths(Path(environ.get(ROOT_VARIABLE) or "/"))
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
    )


def parse_document(text: str | bytes, source: str) -> dict[str, Any]:
    """Return a JSON document of format 1.

    Raises
    ------
    ConfigInvalid
        When it is no JSON object or of another format. The text itself is never part of the error.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{source} is no JSON: {type(error).__name__}.") from None
    if not isinstance(document, dict):
        raise ConfigInvalid(f"{source} is no JSON object.", given=type(document).__name__)
    if "format" not in document:
        raise ConfigInvalid(
            f"{source} isn't what terradask writes: it names no format.",
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
        raise ConfigInvalid(f"host.json: {name} is no text.", given=value)
    return value


def _topic(document: Mapping[str, Any]) -> str | None:
    """Return the topic; a network that was applied before names none."""
    name = "notify_topic_arn"
    arn = None if document.get(name) is None else _text(document, name)
    if arn is not None and len(arn.split(":")) != 6:
        raise ConfigInvalid(f"host.json: {name} is no ARN of a topic.", given=arn)
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
        raise ConfigInvalid(f"{name} is no positive whole number.", given=text)
    return value
