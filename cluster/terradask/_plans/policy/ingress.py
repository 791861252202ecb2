"""P2 and P4: ingress to schedulers and workers."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from terradask._plans.policy.document import PlanDocument, Unknown, written_document
from terradask._plans.policy.findings import PolicyFinding, error, warning
from terradask._plans.policy.openings import Groups, Opening, PrefixLists, network_of, openings
from terradask_modules.iam import listed
from terradask_modules.ingress import SSH_PORT, Network

#: The widest allocated blocks: /8 of IPv4 (IANA IPv4 Address Space Registry), /16 of IPv6.
_WIDEST = {4: 8, 6: 16}
_NAMED = (
    "name your clients' addresses, such as 203.0.113.7/32: Dask runs any code that a client sends"
)
_MEANT = (
    "network.allow_ingress_from_anywhere allows it, so only mutual TLS keeps strangers "
    f"out; better: {_NAMED}"
)
_BY_HAND = (
    "this rule was added outside Terraform, which removes only its own rules: remove it (aws ec2 "
    "describe-security-group-rules shows "
    "its id for aws ec2 revoke-security-group-ingress), and open what is needed in terradask.toml"
)
_WORKERS = "let only the security groups of schedulers and workers reach workers"


def ingress_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield rules that allow ingress from the internet, in one block or in several (P2)."""
    members: list[tuple[Opening, Network]] = []
    listings = PrefixLists(document)
    for opening in openings(document):
        for network in opening.networks:
            if network.prefixlen == 0 and document.open_to_anywhere and not opening.by_hand:
                yield warning(
                    opening.address,
                    f"admits {network} at {opening.ports}: the whole internet",
                    _MEANT,
                )
            elif network.prefixlen < _WIDEST[network.version]:
                yield _error(
                    opening, f"admits {network} at {opening.ports}: {_part(network)}", _NAMED
                )
            else:
                members.append((opening, network))
        members += [(opening, network) for network in listings.of(opening)]
        yield from _undecided(document, opening)
    yield from _together(document, members)
    for address, network in listings.entries:
        if network.prefixlen < _WIDEST[network.version]:
            yield error(address, f"lists {network}: {_part(network)}", _NAMED)


def worker_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield ingress to workers from other sources than hosts, SSH, and SSH keys (P4)."""
    groups, asked = Groups(document), sources_asked_for(document)
    for opening in openings(document):
        stranger = bool(opening.blocks or opening.prefix_lists) or not groups.ours(opening.groups)
        if stranger and "worker" in groups.roles(opening.group):
            yield _error(
                opening,
                f"allows sources other than hosts to reach workers at {opening.ports}",
                _WORKERS,
            )
        if stranger and opens_ssh(opening):
            yield _ssh_finding(opening, asked)
    for resource in document.of("aws_launch_template", "aws_instance", "aws_launch_configuration"):
        key = resource.values.get("key_name")
        if key and key != Unknown():
            yield error(resource.address, "gives hosts an SSH key", "leave key_name out")


def _ssh_finding(opening: Opening, asked: frozenset[Network]) -> PolicyFinding:
    if is_asked_for(opening, asked):
        return warning(
            opening.address,
            f"opens SSH ({opening.ports}) to {', '.join(map(str, opening.networks))}, as in the "
            "settings",
            "a login can become root there, with the role of the scheduler's host and the "
            "cluster's keys; without cluster.allow_ssh the port is closed",
        )
    return _error(
        opening,
        f"opens SSH ({opening.ports})",
        "leave port 22 closed; hosts have no login, and write logs. For a login on a scheduler's "
        "host: cluster.allow_ssh, and the addresses in cluster.allow_ssh_from",
    )


def _undecided(document: PlanDocument, opening: Opening) -> Iterator[PolicyFinding]:
    for value in opening.blocks:
        if network_of(value) is None:
            yield _warning(
                opening, f"allows sources at {opening.ports} that are known only after the apply"
            )
    for value in opening.prefix_lists:
        # A prefix list of the same plan is checked itself.
        if document.find(value, "aws_ec2_managed_prefix_list") is None:
            yield _warning(
                opening,
                f"allows a prefix list at {opening.ports}, whose addresses aren't in the plan",
            )


def _together(
    document: PlanDocument, members: Sequence[tuple[Opening, Network]]
) -> Iterator[PolicyFinding]:
    """Yield rules that together, over all groups of a host, admit more than any owner's block."""
    groups = Groups(document)
    keyed = [
        (groups.key(opening.group) or opening.address, opening, network)
        for opening, network in members
        if not network.is_private
    ]
    reported: set[str] = set()
    carried = [*groups.carried, *({key} for key in dict.fromkeys(key for key, _, _ in keyed))]
    for keys, version in itertools.product(carried, _WIDEST):
        of_host = [
            (opening, network)
            for key, opening, network in keyed
            if key in keys and network.version == version
        ]
        for port in sorted({opening.span[0] for opening, _ in of_host}):
            here = [
                (opening, network)
                for opening, network in of_host
                if opening.span[0] <= port <= opening.span[1]
            ]
            if not _more_than_one_owners([network for _, network in here]):
                continue
            for opening, _ in here:
                if opening.address not in reported:
                    reported.add(opening.address)
                    yield _error(
                        opening,
                        f"allows, with other rules, a large part of the internet at "
                        f"{opening.ports}",
                        _NAMED,
                    )


def _more_than_one_owners(networks: Sequence[Any]) -> bool:
    union = list(ipaddress.collapse_addresses(networks))
    widest = 2 ** (union[0].max_prefixlen - _WIDEST[union[0].version])
    return bool(sum(network.num_addresses for network in union) > widest)


def _part(network: Network) -> str:
    return "the whole internet" if network.prefixlen == 0 else "a large part of the internet"


def _error(opening: Opening, message: str, advice: str) -> PolicyFinding:
    return error(opening.address, message, _BY_HAND if opening.by_hand else advice)


def _warning(opening: Opening, message: str) -> PolicyFinding:
    return warning(opening.address, message, "check it by hand: it may be the whole internet")


# ---- SSH in the settings -------------------------------------------------------------------------


#: The widest usual block of one site: /16 of IPv4, /48 of IPv6 (RFC 6177).
_WIDEST_OF_A_SITE = {4: 16, 6: 48}


def opens_ssh(opening: Opening) -> bool:
    """Return whether a rule opens port 22, alone or among others."""
    first, last = opening.span
    return first <= SSH_PORT <= last


def sources_asked_for(document: PlanDocument) -> frozenset[Network]:
    """Return the addresses that the plan's settings allow to log in: by ``cluster.allow_ssh``, or
    by a rule for port 22 alone.
    """
    written = map(written_document, document.of("aws_s3_object"))
    found = (network_of(each) for item in written for each in _sources(item))
    return frozenset(each for each in found if each is not None)


def is_asked_for(opening: Opening, sources: frozenset[Network]) -> bool:
    """Return whether a rule opens only port 22, and only to such addresses."""
    return (
        opening.span == (SSH_PORT, SSH_PORT)
        and str(opening.protocol) in ("tcp", "6")
        and not (opening.by_hand or opening.groups or opening.prefix_lists or opening.own_group)
        and len(opening.networks) == len(opening.blocks) > 0
        and all(
            each in sources and each.prefixlen >= _WIDEST_OF_A_SITE[each.version]
            for each in opening.networks
        )
    )


def _sources(written: Mapping[str, Any]) -> Iterator[Any]:
    settings = written.get("settings")
    asked = settings if isinstance(settings, Mapping) else {}
    if asked.get("allow_ssh") is True:
        yield from listed(asked.get("allow_ssh_from") or asked.get("allow_ingress_from"))
    for rule in (*listed(written.get("ingress")), *listed(asked.get("ingress"))):
        if isinstance(rule, Mapping) and [str(each) for each in listed(rule.get("ports"))] == [
            str(SSH_PORT)
        ]:
            yield rule.get("cidr")
