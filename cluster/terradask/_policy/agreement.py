"""P8: what a stack writes into the bucket, and what it makes, are of one mind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from terradask._policy.document import PlanDocument, written_document
from terradask._policy.openings import network_of, openings
from terradask_modules.iam import listed
from terradask_modules.ingress import is_within
from terradask_modules.names import TAG_DESCRIPTOR

Disagreement = tuple[str, str]


def disagreements(document: PlanDocument) -> Iterator[Disagreement]:
    """Yield addresses, and how they differ from the stack's document."""
    for item in document.of("aws_s3_object"):
        written = written_document(item)
        if "ingress" in written:
            yield from _openings(document, listed(written["ingress"]), "workspace.json")
            yield from _security_groups(document, written.get("security_groups"))
        settings = written.get("settings")
        if isinstance(settings, Mapping):
            sources = [
                *listed(settings.get("ingress")),
                *listed(settings.get("allow_ingress_from")),
                *listed(settings.get("allow_ssh_from")),
            ]
            yield from _openings(document, sources, "cluster.json")
            yield from _groups(document, item.address, written.get("groups"))
            yield from _classes(item.address, written, settings)
            if settings.get("private_to_creator") is True:
                yield from _bound(document, str(item.values.get("content")))


def _openings(document: PlanDocument, sources: list[Any], name: str) -> Iterator[Disagreement]:
    cidrs = [each.get("cidr") if isinstance(each, Mapping) else each for each in sources]
    named = [network for network in map(network_of, cidrs) if network is not None]
    for opening in openings(document):
        for network in opening.networks:
            if not opening.by_hand and not any(is_within(network, each) for each in named):
                yield opening.address, f"lets {network} in, which {name} doesn't name"


def _security_groups(document: PlanDocument, named: Any) -> Iterator[Disagreement]:
    ids = set(named.values()) if isinstance(named, Mapping) else set()
    for template in document.of("aws_launch_template"):
        # As written: a group's own id may be known before the document that names it.
        for card in listed((template.configured or {}).get("network_interfaces")):
            for group in listed(card.get("security_groups")):
                if isinstance(group, str) and group not in ids:
                    yield template.address, f"is in {group}, which workspace.json doesn't name"


def _bound(document: PlanDocument, content: str) -> Iterator[Disagreement]:
    """Yield a private cluster's secret that doesn't name the SHA-256 of its cluster.json."""
    expected = hashlib.sha256(content.encode()).hexdigest()
    for secret in document.of("aws_secretsmanager_secret"):
        if (secret.values.get("tags") or {}).get(TAG_DESCRIPTOR) != expected:
            yield secret.address, f"has another {TAG_DESCRIPTOR} than its cluster.json"


def _groups(document: PlanDocument, address: str, groups: Any) -> Iterator[Disagreement]:
    named = {
        group.get("autoscaling_group"): group
        for group in (groups.values() if isinstance(groups, Mapping) else ())
        if isinstance(group, Mapping)
    }
    made = {each.values.get("name"): each for each in document.of("aws_autoscaling_group")}
    for name in named.keys() - made.keys():
        yield address, f"names the group {name}, which the stack doesn't make"
    for name, group in made.items():
        if name not in named:
            yield group.address, "is a group that cluster.json doesn't name"
        elif named[name].get("max_size") != group.values.get("max_size"):
            yield group.address, "has another max_size than cluster.json says"


def _classes(
    address: str, written: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[Disagreement]:
    """Yield what hosts would run though the settings don't name it: classes, a notebook server."""
    for role in ("scheduler", "worker"):
        loaded = written.get(role)
        if isinstance(loaded, Mapping) and loaded.get("class") != settings.get(f"{role}_class"):
            yield address, f"has hosts load another {role}.class than the settings name"
    scheduler = written.get("scheduler")
    if isinstance(scheduler, Mapping) and scheduler.get("jupyter") and not settings.get("jupyter"):
        yield address, "has the scheduler's host run a notebook server without the settings"
