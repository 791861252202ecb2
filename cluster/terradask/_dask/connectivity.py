"""Check this machine's route to a cluster's scheduler, and resolve "me" to its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from terradask._aws.own_address import own_cidr
from terradask._aws.ssm.plugin import find_plugin
from terradask._dask.arguments import RUN_SETTINGS
from terradask.errors import InvalidInput
from terradask_modules.ingress import parse_ports
from terradask_modules.names import SCHEDULER_PORTS
from terradask_stacks.checks import no_sessions
from terradask_stacks.validators.addresses import ME

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace
    from terradask_stacks.settings.connection import ConnectionSettings

#: The settings of the route to the scheduler: a value for one overrides both.
ROUTE_SETTINGS = frozenset({"connect", "use_scheduler_public_ip"})

_SOURCES = ("allow_ingress_from", "allow_ssh_from")


def needs_own_address(given: Mapping[str, Any]) -> bool:
    """Return whether an argument contains "me" or implies it: SSH without addresses."""
    return _ssh_without_sources(given) or _contains_me(given)


def with_own_address(
    given: Mapping[str, Any], url: str, declared: ConnectionSettings
) -> dict[str, Any]:
    """Return arguments with this machine's address in place of "me". SSH without addresses in
    arguments and declared settings also means "me". Raises `EndpointUnreachable`.
    """
    if _ssh_without_sources(given) and not any(getattr(declared, name) for name in _SOURCES):
        given = {**given, "allow_ssh_from": ME}
    if not _contains_me(given):
        return dict(given)
    block = own_cidr(url)
    found = {
        name: [block if each == ME else each for each in _listed(given[name])]
        for name in _SOURCES
        if name in given
    }
    return {**given, **{name: list(dict.fromkeys(blocks)) for name, blocks in found.items()}}


def client_settings(given: Iterable[str], requested: ConnectionSettings) -> frozenset[str]:
    """Return the names of settings whose value comes from this client, not from the deployment."""
    is_routed = any(getattr(requested, name) is not None for name in ROUTE_SETTINGS)
    return RUN_SETTINGS.intersection(given) | (ROUTE_SETTINGS if is_routed else frozenset())


def check_route(workspace: Workspace, settings: ConnectionSettings) -> None:
    """Check that this machine can reach a cluster over the route in its settings.

    Raises `InvalidInput`, `SettingsError`, `SetupError`.
    """
    if settings.way == "ssm":
        if not workspace.baseline().session_manager:
            raise no_sessions()
        find_plugin()
    elif settings.way == "public":
        _check_ingress(workspace, settings)


def _check_ingress(workspace: Workspace, connection: ConnectionSettings) -> None:
    baseline, rules = workspace.baseline(), connection.own_ingress
    # If clusters share security groups, the network's rules apply, not the cluster's.
    own = baseline.isolation == "cluster" and rules is not None
    port = connection.scheduler_port
    let_in: list[Sequence[int | str]] = (
        [rule.ports for rule in rules or ()] if own else [rule.ports for rule in baseline.ingress]
    )
    if any(_covers(ports, port) for ports in let_in):
        return
    section = "cluster" if own else "network"
    here = (
        "pass allow_ingress_from='me', which allows this machine's address; "
        if baseline.isolation == "cluster"
        else ""
    )
    # A rule without ports applies to the usual ones.
    usual = SCHEDULER_PORTS[0] <= port <= SCHEDULER_PORTS[1]
    ports = "" if usual else f"ports = [{port}, {connection.dashboard_port}] and "
    ssm = ", or connect='ssm', which needs no rule" if baseline.session_manager else ""
    raise InvalidInput(
        f"The cluster's scheduler could not be reached: the {section} allows no address "
        f"at port {port}.",
        given=f"{section}.ingress = {'[]' if not let_in else [list(ports) for ports in let_in]}",
        allowed="rules of ports and CIDR blocks, such as your own address",
        advice=f"{here}add [[{section}.ingress]] with {ports}"
        'cidr = "YOUR.ADDRESS/32" to terradask.toml'
        + (", or leave cluster.ingress out; " if own else " and run: terradask apply network; ")
        + f"or, inside the VPC, set connect='private'{ssm}",
    )


def _covers(ports: Sequence[int | str], port: int) -> bool:
    return any(first <= port <= last for first, last in map(parse_ports, ports))


def _contains_me(given: Mapping[str, Any]) -> bool:
    return any(ME in _listed(given.get(name)) for name in _SOURCES)


def _ssh_without_sources(given: Mapping[str, Any]) -> bool:
    return given.get("allow_ssh") is True and not any(map(given.get, _SOURCES))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def allowed_sources(workspace: Workspace) -> list[str]:
    """Return the network's ingress rules for schedulers, as text: CIDR blocks and ports."""
    return [
        f"{rule.cidr} on {', '.join(map(str, rule.ports))}" for rule in workspace.baseline().ingress
    ]
