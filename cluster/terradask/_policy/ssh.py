"""SSH that the settings in a plan ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask._policy.document import PlanDocument, written_document
from terradask._policy.openings import Opening, network_of
from terradask_modules.iam import listed
from terradask_modules.ingress import SSH_PORT, Network

#: The widest block that one site usually has: /16 of IPv4, /48 of IPv6 (RFC 6177).
_WIDEST = {4: 16, 6: 48}


def opens_ssh(opening: Opening) -> bool:
    """Return whether a rule lets port 22 in, alone or among others."""
    first, last = opening.span
    return first <= SSH_PORT <= last


def sources_asked_for(document: PlanDocument) -> frozenset[Network]:
    """Return the addresses that settings in the plan let log in: by ``cluster.allow_ssh``, or by a
    rule for port 22 alone.
    """
    written = map(written_document, document.of("aws_s3_object"))
    found = (network_of(each) for item in written for each in _sources(item))
    return frozenset(each for each in found if each is not None)


def is_asked_for(opening: Opening, sources: frozenset[Network]) -> bool:
    """Return whether a rule opens port 22, and nothing else, to such addresses and to no others."""
    return (
        opening.span == (SSH_PORT, SSH_PORT)
        and str(opening.protocol) in ("tcp", "6")
        and not (opening.by_hand or opening.groups or opening.prefix_lists or opening.own_group)
        and len(opening.networks) == len(opening.blocks) > 0
        and all(
            each in sources and each.prefixlen >= _WIDEST[each.version] for each in opening.networks
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
