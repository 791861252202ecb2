"""Errors of the embedded AWS."""

from __future__ import annotations

from collections.abc import Sequence

from terradask_simulator.aws.errors import SimulatorError

__all__ = [
    "AlreadyStarted",
    "BaselineFailed",
    "LeftRunning",
    "NoFreeRange",
    "NotStarted",
    "PlatformUnsupported",
    "PortTaken",
    "SimulatorError",
    "SimulatorGone",
]


class PlatformUnsupported(SimulatorError):
    """The embedded AWS can't run on this machine."""


class PortTaken(SimulatorError):
    """Another program listens on the chosen port."""

    port: int

    def __init__(self, port: int) -> None:
        super().__init__(
            "The port for the embedded AWS is taken by another program",
            given=port,
            allowed="a free port on 127.0.0.1, or 0 for any",
            advice="choose another port, or end the program that listens there",
        )
        self.port = port


class NoFreeRange(SimulatorError):
    """Every address range of the loopback network is in use by another simulator."""


class SimulatorGone(SimulatorError):
    """The embedded AWS ended or doesn't answer."""


class AlreadyStarted(SimulatorError):
    """A simulator is already started."""


class NotStarted(SimulatorError):
    """No simulator is started."""


class BaselineFailed(SimulatorError):
    """The network baseline could not be deployed on the embedded AWS."""


class LeftRunning(SimulatorError):
    """A command ended and left instances or deployments behind, running or stopped.

    Parameters
    ----------
    left
        The remaining groups and instances, one readable line each.
    returncode
        The exit code of the command.
    """

    left: list[str]
    returncode: int

    exit_code = 3

    def __init__(self, left: Sequence[str], *, returncode: int) -> None:
        super().__init__(
            f"The command ended with code {returncode} and left "
            f"{len(left)} {'group or instance' if len(left) == 1 else 'groups or instances'}:\n  "
            + "\n  ".join(left),
            advice=(
                "close or destroy clusters before the command ends; the embedded AWS was stopped "
                "and everything on it is gone. For commands that go on from each other: "
                "terradask sim start"
            ),
        )
        self.left = list(left)
        self.returncode = returncode
