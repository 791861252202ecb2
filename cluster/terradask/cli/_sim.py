"""``terradask sim``: start, stop and control the embedded AWS."""

from __future__ import annotations

import json
import shlex
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from terradask._common.clock import age_text
from terradask.cli._invocation import answer, flag, interruption, json_option
from terradask.cli._output import message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from terradask_simulator import SimulatorInfo

PORT = click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port of the endpoint; by default a free one.",
)
REGION = click.option(
    "--region", default="us-east-1", show_default=True, help="Region of the environment."
)
BARE = flag("--bare", help="Don't deploy the network baseline.")
IAM = flag("--iam", help="Evaluate the IAM policies of hosts, other roles and users.")


def check_installed() -> None:
    """Check that the simulator, a separate distribution, is installed, and runs here. Raises
    `SetupError`.
    """
    from terradask.errors import SetupError

    if sys.platform == "win32":
        raise SetupError(
            "the embedded AWS doesn't run on Windows",
            allowed="Linux",
            advice="run it in the Windows Subsystem for Linux (WSL) or in a Linux container",
        )
    if find_spec("terradask_simulator") is None:
        raise SetupError(
            "the embedded AWS is not installed", advice="pip install 'terradask[demo]'"
        )


@click.group(short_help="Run the embedded AWS")
def sim() -> None:
    """Run the embedded AWS: Terraform, boto3, TLS and Dask are real; instances are local processes.

    It listens only on loopback addresses, needs no account and costs nothing.
    """


@sim.command(short_help="Start an embedded AWS that keeps running")
@PORT
@REGION
@BARE
@IAM
@json_option
def start(port: int, region: str, bare: bool, iam: bool) -> None:
    """Start an embedded AWS that keeps running, and deploy the network on it.

    Prints the variables that make a shell use it: eval "$(terradask sim start)". `terradask sim
    stop` ends it.
    """
    check_installed()
    from terradask_simulator.lifecycle import environment_of, start_daemon

    began = time.monotonic()
    message("starting the embedded AWS" + ("" if bare else " and deploying the network on it"))
    with interruption("terradask sim stop ends it"):
        info = start_daemon(
            port=port, region=region, baseline=not bare, enforce_iam=iam, on_step=message
        )
    message(f"ready after {age_text(time.monotonic() - began)}")
    _show(info, environment_of(info))


@sim.command(short_help="Show whether an embedded AWS runs, and where")
@json_option
def status() -> None:
    """Show whether an embedded AWS runs, and print the variables that make a shell use it."""
    check_installed()
    from terradask_simulator.lifecycle import environment_of
    from terradask_simulator.lifecycle import status as find

    info = _running(find())
    message(f"the embedded AWS answers at {info.endpoint_url}; its folder is {info.state_dir}")
    _show(info, environment_of(info))


@sim.command(short_help="Set its switches: capacity, interruptions, throttling")
@click.argument("name", required=False)
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@json_option
def switch(name: str | None, settings: tuple[str, ...]) -> None:
    """Set a switch: the embedded AWS then refuses, delays or interrupts as AWS sometimes does.

    For example: terradask sim switch no_capacity instance_type=m7i.large market=spot. Inside `sim
    run` it sets that embedded AWS, otherwise the started one. Show what that changes; without NAME,
    or with --json, show all switches.
    """
    check_installed()
    from terradask_simulator import Switches
    from terradask_simulator.lifecycle import of_this_environment

    switches = Switches(_running(of_this_environment()))
    before: dict[str, object] = {}
    if name is not None:
        before = switches.switches()
        switches.turn(name, **dict(_setting(one) for one in settings))
    states = switches.switches()
    changed = [
        f"{one}: {json.dumps(value)}"
        for one, value in states.items()
        if one not in before or value != before[one]
    ]
    answer(states, "\n".join(changed) or None, otherwise=f"{name}: done")


def _setting(text: str) -> tuple[str, object]:
    """Return a switch's argument; values are JSON if they parse as JSON, else strings."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


@sim.command(short_help="Stop the embedded AWS, with everything on it")
@json_option
def stop() -> None:
    """Stop the embedded AWS that `sim start` started, with everything on it."""
    check_installed()
    from terradask_simulator.lifecycle import stop_daemon

    left = stop_daemon()
    for line in left:
        message(f"ended with it: {line}")
    answer({"stopped": True, "left_running": left}, otherwise="stopped")


@sim.command(
    short_help="Run a command on a new embedded AWS",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@PORT
@REGION
@BARE
@IAM
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context, *, port: int, region: str, bare: bool, iam: bool, command: tuple[str, ...]
) -> None:
    """Run COMMAND on a new embedded AWS that ends with it: terradask sim run -- python script.py.

    The network is deployed first. COMMAND's environment makes boto3, Terraform, hosts and terradask
    use the embedded AWS. Exits with COMMAND's code; if COMMAND leaves clusters or instances, an
    error names them.
    """
    check_installed()
    from terradask_simulator.lifecycle import run as run_beside

    def ready(info: SimulatorInfo) -> None:
        message(f"the embedded AWS answers at {info.endpoint_url}")

    ctx.exit(
        run_beside(
            command,
            bare=bare,
            region=region,
            port=port,
            enforce_iam=iam,
            on_ready=ready,
            on_step=message,
        )
    )


def _running(info: SimulatorInfo | None) -> SimulatorInfo:
    from terradask_simulator.errors import NotStarted

    if info is None:
        raise NotStarted("no embedded AWS is running", advice="start one: terradask sim start")
    return info


def _show(info: SimulatorInfo, environ: Mapping[str, str | None]) -> None:
    lines = [
        f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"
        for name, value in environ.items()
    ]
    answer({**info.as_dict(), "environ": environ}, "\n".join(lines))
