"""Parse terradask's systemd unit: the start of its program, and the effect of its end on the
machine.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from terradask_simulator.hosts.cloud_config import BootFailed

__all__ = ["Unit", "parse_unit"]

_POWERS_OFF = re.compile(r"\b(poweroff|halt|shutdown)\b")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|sec|min|m|h|)")
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
}

_KEPT_BASES = {
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
}


@dataclass(frozen=True)
class Unit:
    """Settings of a service unit that the simulator uses."""

    #: The program's arguments after ``-m terradask_host``.
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    #: ``no``, ``on-failure`` or ``always``.
    restart: str = "no"
    restart_seconds: float = 0.1
    #: Number of starts that are allowed within an interval.
    start_limit_burst: int = 5
    start_limit_seconds: float = 10.0
    powers_off_on_success: bool = False
    #: systemd before 254 also carries out a `SuccessAction` when it restarts a failed program.
    #: https://github.com/systemd/systemd/issues/26903
    powers_off_at_restart: bool = False
    #: For good, after as many failures as the limit admits.
    powers_off_on_failure: bool = False
    #: ``control-group``: stopping sends SIGTERM to every process of the service; ``mixed`` or
    #: ``process``: to the first one only.
    kill_mode: str = "control-group"
    #: Folders below ``/run``, created at each start and removed at each end.
    runtime_directories: tuple[str, ...] = ()
    #: Folders that are created at the start and kept.
    kept_directories: tuple[str, ...] = ()
    umask: int = 0o022

    def ends_well(self, code: int) -> bool:
        """Return whether systemd counts an exit code, or the negative signal number, as success."""
        return code in _CLEAN

    def restarts(self, code: int) -> bool:
        """Return whether a program that ended with a code is restarted, within the start limit."""
        return self.restart == "always" or (
            self.restart == "on-failure" and not self.ends_well(code)
        )


#: Exits that systemd counts as success: 0, SIGHUP, SIGINT, SIGPIPE, SIGTERM.
_CLEAN = (0, -1, -2, -13, -15)


def parse_unit(text: str) -> Unit:
    """Read a unit file."""
    settings: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not line.lstrip().startswith(("#", ";")):
            settings.setdefault(name.strip(), []).append(value.strip())
    command = shlex.split(_last(settings, "ExecStart", ""))
    if command[1:3] != ["-m", "terradask_host"]:
        raise BootFailed(
            "The unit's ExecStart doesn't run terradask_host",
            given=command,
            allowed="PYTHON -m terradask_host [arguments]",
        )
    environment = dict(
        pair.split("=", 1)
        for value in settings.get("Environment", [])
        for pair in shlex.split(value)
        if "=" in pair
    )
    stopped = settings.get("ExecStopPost", [])
    at_restart = [*settings.get("SuccessAction", []), *settings.get("OnSuccess", [])]
    on_failure = [
        *settings.get("FailureAction", []),
        *settings.get("OnFailure", []),
        *settings.get("StartLimitAction", []),
        *(each for each in stopped if "$SERVICE_RESULT" not in each),
    ]
    return Unit(
        arguments=tuple(command[3:]),
        environment=environment,
        restart=_last(settings, "Restart", "no"),
        restart_seconds=_seconds(_last(settings, "RestartSec", "100ms")),
        start_limit_burst=int(_last(settings, "StartLimitBurst", "5")),
        start_limit_seconds=_seconds(
            _last(settings, "StartLimitIntervalSec", _last(settings, "StartLimitInterval", "10s"))
        ),
        powers_off_on_success=_powers_off([*at_restart, *stopped]),
        powers_off_at_restart=_powers_off(at_restart),
        powers_off_on_failure=_powers_off(on_failure),
        kill_mode=_last(settings, "KillMode", "control-group"),
        runtime_directories=tuple(_words(settings, "RuntimeDirectory")),
        kept_directories=tuple(
            f"{base}/{name}" for key, base in _KEPT_BASES.items() for name in _words(settings, key)
        ),
        umask=int(_last(settings, "UMask", "0022"), 8),
    )


def _powers_off(actions: Iterable[str]) -> bool:
    return any(_POWERS_OFF.search(each) for each in actions)


def _words(settings: dict[str, list[str]], name: str) -> list[str]:
    return [word for value in settings.get(name, []) for word in value.split() if ".." not in word]


def _last(settings: dict[str, list[str]], name: str, default: str) -> str:
    return settings.get(name, [default])[-1]


def _seconds(span: str) -> float:
    if span == "infinity":
        return float("inf")
    return sum(float(number) * _SECONDS[unit] for number, unit in _SPAN.findall(span))
