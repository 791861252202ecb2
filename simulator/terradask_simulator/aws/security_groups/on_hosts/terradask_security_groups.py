"""Evaluates security groups for the sockets of a host's Python processes: what they refuse gets no
answer, as on AWS. Established connections stay.

It runs in each of a host's environments: it imports the standard library alone. Code that doesn't
connect through Python's `socket`, such as libpq's, isn't seen.
"""

from __future__ import annotations

import functools
import os
import socket

# What types alone need takes longer to import than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

__all__ = ["NETWORK", "OWN_ADDRESS", "Network", "install", "is_covered"]

#: Variables of a host's processes: the file with the table, and the host's private address.
NETWORK, OWN_ADDRESS = "TERRADASK_SIMULATOR_NETWORK", "TERRADASK_SIMULATOR_ADDRESS"

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_HTTPS = 443
#: AWS (documented): AWS's services have public addresses of its published ranges.
#: https://docs.aws.amazon.com/general/latest/gr/aws-ip-ranges.html
_PUBLIC_ADDRESS = "52.94.0.1"


def is_covered(
    rules: Sequence[Sequence[Any]],
    protocol: str,
    port: int,
    *,
    address: str,
    groups: Collection[str] = (),
    prefix_lists: Mapping[str, Sequence[str]] = {},
) -> bool:
    """Return whether one of the rules covers a connection with a peer.

    Parameters
    ----------
    rules
        Each a protocol (``-1``: all), its first and last port, and its peer: a block of addresses,
        or the id of a security group or of a prefix list.
    protocol, port
        The connection's.
    address, groups
        The peer's, and its groups if it has some.
    prefix_lists
        Blocks by the id of their prefix list.
    """
    return any(
        rule_protocol in ("-1", protocol)
        and (rule_protocol == "-1" or first <= port <= last)
        and (
            peer in groups
            or any(_contains(block, address) for block in prefix_lists.get(peer, (peer,)))
        )
        for rule_protocol, first, last, peer in rules
    )


# Programs that connect to nothing don't wait for the imports in these functions.
@functools.lru_cache(4096)
def _contains(block: str, address: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(block, strict=False)
    except ValueError:
        # A security group.
        return False


class Network:
    """The destinations that a host reaches, by the table that the embedded AWS keeps in a file.

    Parameters
    ----------
    path
        The file; see `terradask_simulator.aws.security_groups.table`.
    own_address
        The host's private address.
    """

    def __init__(self, path: str, own_address: str) -> None:
        self._path = path
        self._own_address = own_address
        self._version: object = None
        self._table: dict[str, Any] = {}
        self._known: dict[tuple[str, str, int], bool] = {}

    @property
    def black_hole(self) -> tuple[str, int]:
        """Where connections get no answer."""
        host, port = self._read()["black_hole"]
        return host, port

    def resolve(self, name: str) -> str:
        """Return the address of a name in a private hosted zone of the host's VPC; any other name
        as it is.
        """
        table = self._read()
        vpc, _ = table["interfaces"].get(self._own_address, ("", ()))
        return str(table["names"].get(vpc, {}).get(name.rstrip(".").lower(), name))

    def reaches(self, protocol: str, host: str, port: int) -> bool:
        """Return whether the groups of both ends admit a connection to an address."""
        table = self._read()
        asked = (protocol, host, port)
        if asked not in self._known:
            self._known[asked] = self._evaluate(table, *asked)
        return self._known[asked]

    def _read(self) -> dict[str, Any]:
        try:
            found = os.stat(self._path)  # noqa: PTH116  (importing pathlib takes milliseconds)
            version = (found.st_ino, found.st_mtime_ns)
            if version != self._version:
                import json

                with open(self._path, encoding="utf-8") as file:  # noqa: PTH123
                    self._table = json.load(file)
                self._version, self._known = version, {}
        except FileNotFoundError:
            # The embedded AWS has ended, and this host is about to.
            pass
        return self._table

    def _evaluate(self, table: dict[str, Any], protocol: str, host: str, port: int) -> bool:
        import ipaddress

        if not table or host == self._own_address:
            return True
        if [host, port] == table["endpoint"]:
            return self._reaches_aws(table)
        address = ipaddress.ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        host = str(address)
        if host in table["interfaces"] or host in table["public"] or not address.is_loopback:
            return self._reaches(table, protocol, host, port)
        # This computer's, unless an ended instance had it: then nothing answers.
        return not any(_contains(block, host) for block in table["blocks"])

    def _reaches_aws(self, table: dict[str, Any]) -> bool:
        """Return whether any way leads to AWS's services: the internet, an endpoint with an
        interface, or a gateway endpoint.
        """
        vpc, _ = table["interfaces"].get(self._own_address, ("", ()))
        services = {peer: [_PUBLIC_ADDRESS] for peer in table["gateways"].get(vpc, ())}
        lists = {**table["prefix_lists"], **services}
        return self._lets_out(table, "tcp", _PUBLIC_ADDRESS, _HTTPS, lists) or any(
            table["interfaces"][address][0] == vpc and self._reaches(table, "tcp", address, _HTTPS)
            for address in table["endpoints"]
        )

    def _reaches(self, table: dict[str, Any], protocol: str, host: str, port: int) -> bool:
        interfaces = table["interfaces"]
        vpc, groups = interfaces.get(self._own_address, ("", ()))
        lists = table["prefix_lists"]
        if not self._lets_out(table, protocol, host, port, lists):
            return False
        if host not in interfaces:
            return True
        its_vpc, its_groups = interfaces[host]
        if its_vpc != vpc and sorted((vpc, its_vpc)) not in table["peerings"]:
            return False
        inwards = [rule for group in its_groups for rule in table["groups"][group]["in"]]
        source = self._own_address
        return is_covered(
            inwards, protocol, port, address=source, groups=groups, prefix_lists=lists
        )

    def _lets_out(
        self,
        table: dict[str, Any],
        protocol: str,
        host: str,
        port: int,
        lists: Mapping[str, Sequence[str]],
    ) -> bool:
        _, groups = table["interfaces"].get(self._own_address, ("", ()))
        _, its_groups = table["interfaces"].get(host, ("", ()))
        outwards = [rule for group in groups for rule in table["groups"][group]["out"]]
        return is_covered(
            outwards, protocol, port, address=host, groups=its_groups, prefix_lists=lists
        )


def install(environ: Mapping[str, str]) -> None:
    """Filter this process's connections from now on."""
    network = Network(environ[NETWORK], environ[OWN_ADDRESS])
    for name, place in (("connect", 0), ("connect_ex", 0), ("sendto", -1), ("sendmsg", 3)):
        setattr(socket.socket, name, _filtered(getattr(socket.socket, name), place, network))

    resolve = socket.getaddrinfo

    @functools.wraps(resolve)
    def getaddrinfo(host: Any, *more: Any, **options: Any) -> Any:
        return resolve(network.resolve(host) if isinstance(host, str) else host, *more, **options)

    socket.getaddrinfo = getaddrinfo


def _filtered(method: Callable[..., Any], place: int, network: Network) -> Callable[..., Any]:
    """Return a method of sockets whose argument at a place is an address, which becomes one that
    doesn't answer where the network admits no connection.
    """

    @functools.wraps(method)
    def filtered(self: socket.socket, *given: Any) -> Any:
        address = given[place] if place < len(given) and given else None
        if self.family not in _FAMILIES or not isinstance(address, tuple):
            return method(self, *given)
        changed = list(given)
        changed[place] = _way(self, address, network)
        return method(self, *changed)

    return filtered


def _way(one: socket.socket, address: tuple[Any, ...], network: Network) -> tuple[Any, ...]:
    import ipaddress

    if not isinstance(address[0], str):
        return address
    try:
        ipaddress.ip_address(host := address[0].partition("%")[0])
    except ValueError:
        # A name; the empty one is this host's.
        host = str(socket.getaddrinfo(host or None, address[1], one.family)[0][4][0])
        address = (host, *address[1:])
    protocol = "udp" if one.type == socket.SOCK_DGRAM else "tcp"
    if network.reaches(protocol, host, address[1]):
        return address
    hole, port = network.black_hole
    return (hole, port) if one.family == socket.AF_INET else (f"::ffff:{hole}", port, 0, 0)
