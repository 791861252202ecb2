"""Check offers, and that clusters of an offer have only settings that it allows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any

from terradask_stacks.choices import Choice, ChoiceReader
from terradask_stacks.errors import Finding
from terradask_stacks.findings import nearest, place_of
from terradask_stacks.numbers import USUAL_BOUNDS, most_of
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.settings.hardware import EXCLUDED_BY
from terradask_stacks.settings.offers import OfferSettings
from terradask_stacks.settings.software import SoftwareSettings
from terradask_stacks.settings.variables import VariableSettings
from terradask_stacks.settings.worker_groups import MOST_WORKERS

#: What runs on a cluster's machines and how a client waits: chosen freely, unless the offer sets
#: it or has a choice of it.
FREE = frozenset(
    {
        *SoftwareSettings.model_fields,
        *VariableSettings.model_fields,
        *("worker_class", "worker_options", "workers_per_host", "scheduler_class"),
        *(
            "performance_report",
            "wait_for_workers",
            "send_dask_config",
            "connect",
            "use_scheduler_public_ip",
        ),
        *("create_timeout_seconds", "capacity_timeout_seconds", "worker_timeout_seconds"),
    }
)

#: Values of them may be private.
_PRIVATE = frozenset({"environ", "secrets"})

_MAX_WORKERS = "max_workers"


def choices_of(offer: OfferSettings) -> dict[str, Choice]:
    """Return the choices of a checked offer, by setting."""
    reader = ChoiceReader(offer.cluster)
    found = {name: reader.read(name, given, name) for name, given in offer.choose.items()}
    return {name: choice for name, choice in found.items() if choice is not None}


def at_most(offer: OfferSettings) -> dict[str, Any]:
    """Return the choices of an offer's largest cluster, those with bounds."""
    most = {name: choice.most for name, choice in choices_of(offer).items()}
    return {name: value for name, value in most.items() if value is not None}


def with_offers(
    settings: Settings, origins: Mapping[str, str], arguments: Set[str]
) -> tuple[Settings, list[Finding]]:
    """Check all offers, and all clusters of one.

    Returns settings in which offers and their clusters have their ``max_workers``, and the findings
    on settings. What arguments of a call choose concerns one cluster alone: it is kept in the
    settings, and `Settings.cluster_named` raises it. `arguments` are such settings of
    ``[cluster]``.
    """
    findings: list[Finding] = []
    offers: dict[str, OfferSettings] = {}
    for name, offer in settings.offers.items():
        wrong, checked = _checked(name, offer, origins)
        findings += wrong
        offers[name] = checked
    if findings:
        return settings, findings
    named: list[tuple[str | None, ClusterSettings]] = [(None, settings.cluster)]
    named += settings.clusters.items()
    clusters: dict[str | None, ClusterSettings] = {}
    refused: dict[str | None, tuple[Finding, ...]] = {}
    for declared, cluster in named:
        found, clusters[declared] = _of_offer(declared, cluster, offers, origins)
        given = settings.cluster.offer if "offer" in arguments else cluster.offer
        if declared is not None and given != cluster.offer:
            found["declared"] = _is_declared(declared, given, cluster.offer)
        late = [key for key in found if key in arguments | {"declared"} and key != "offer"]
        if late:
            refused[declared] = tuple(found[key] for key in late)
        findings += [one for key, one in found.items() if key not in late]
    updated = settings.model_copy(
        update={
            "offers": offers,
            "cluster": clusters[None],
            "clusters": {name: one for name, one in clusters.items() if name is not None},
        }
    )
    updated.refuse_clusters(refused)
    return updated, findings


def beyond(
    name: str,
    offer: OfferSettings,
    cluster: ClusterSettings,
    keys: Iterable[str],
    where: Callable[[str], str],
) -> dict[str, Finding]:
    """Return what is wrong with these settings of a cluster of an offer, by setting; `where`
    returns the place of a setting's value.
    """
    choices = choices_of(offer)
    differing = {key for key in keys if getattr(cluster, key) != getattr(offer.cluster, key)}
    differing.discard("offer")
    found = {}
    for key in sorted(differing):
        value = getattr(cluster, key)
        if value is None and any(
            key in EXCLUDED_BY.get(other, ()) for other in differing if other != key
        ):
            # The finding on the setting that took its place is enough.
            continue
        if not _may_be(key, value, offer, choices):
            found[key] = replace(_refusal(name, offer, choices, key, value), where=where(key))
    return found


def _may_be(key: str, value: Any, offer: OfferSettings, choices: Mapping[str, Choice]) -> bool:
    if key in choices:
        return choices[key].allows(value)
    if key == _MAX_WORKERS and "n_workers" in choices:
        # A lower limit takes nothing that isn't offered.
        return bool(value < offer.cluster.max_workers)
    return key in FREE and key not in offer.fixed


def _refusal(
    name: str, offer: OfferSettings, choices: Mapping[str, Choice], key: str, value: Any
) -> Finding:
    """Return what is wrong with a value, without its place."""
    own = getattr(offer.cluster, key)
    advice = f"leave it out, or use another offer; `terradask offers {name}` shows what it allows"
    if key in choices:
        problem, allowed = f"offer {name!r} doesn't allow this value", str(choices[key])
        advice = f"choose what is allowed; `terradask offers {name}` shows it"
    elif key in _PRIVATE:
        problem, allowed = f"offer {name!r} sets it, for all of its clusters", "only the offer's"
    else:
        how = "sets it" if key in offer.fixed else "doesn't offer it"
        problem = f"offer {name!r} {how}"
        of_offer = "" if own is None or own in ([], {}) else f", {own!r}"
        may = f"; to be chosen: {', '.join(sorted(choices))}" if choices else ""
        allowed = f"only the offer's value{of_offer}{may}"
    given = None if key in _PRIVATE else value
    return Finding(where=key, problem=problem, given=given, allowed=allowed, advice=advice)


def _is_declared(name: str, given: str | None, own: str | None) -> Finding:
    return Finding(
        where="argument offer",
        problem=f"cluster {name!r} is declared, and has the offer that its table names",
        given=given,
        allowed="none" if own is None else own,
        advice=f"leave it out, set it in [clusters.{name}], or use another name",
    )


def _of_offer(
    declared: str | None,
    cluster: ClusterSettings,
    offers: Mapping[str, OfferSettings],
    origins: Mapping[str, str],
) -> tuple[dict[str, Finding], ClusterSettings]:
    """Return what is wrong with a cluster's settings, by setting, and the settings with the
    offer's ``max_workers``.
    """

    def where(key: str) -> str:
        return place_of(("cluster" if declared is None else f"clusters.{declared}", key), origins)

    name = cluster.offer
    if name is None:
        return {}, cluster
    offer = offers.get(name)
    if offer is None:
        near = nearest(name, offers)
        unknown = Finding(
            where=where("offer"),
            problem="there is no such offer",
            given=name,
            allowed=", ".join(sorted(offers)) or "no offer: [offers.NAME] makes one",
            advice=f"did you mean {near}?" if near else "`terradask offers` lists them",
        )
        return {"offer": unknown}, cluster
    if cluster.max_workers == MOST_WORKERS:
        cluster = cluster.model_copy(update={_MAX_WORKERS: offer.cluster.max_workers})
    found = beyond(name, offer, cluster, ClusterSettings.model_fields, where)
    if most_of(cluster.n_workers) > cluster.max_workers and "n_workers" not in found:
        found["n_workers"] = _wrong(
            where("n_workers"),
            f"offer {name!r} allows it with a larger max_workers",
            cluster.n_workers,
            f"0 to {cluster.max_workers}",
            f"choose max_workers too; `terradask offers {name}` shows what it allows",
        )
    return found, cluster


def _checked(
    name: str, offer: OfferSettings, origins: Mapping[str, str]
) -> tuple[list[Finding], OfferSettings]:
    """Return what is wrong with an offer, and the offer with its ``max_workers``."""

    def place(key: str) -> str:
        return place_of((f"offers.{name}.choose", key), origins)

    base = offer.cluster
    reader = ChoiceReader(base)
    findings = reader.findings
    choices: dict[str, Choice] = {}
    settings = [key for key in ClusterSettings.model_fields if key != "offer"]
    for key, given in offer.choose.items():
        if key not in settings:
            findings.append(_unknown(place(key), key, given, settings))
            continue
        choice = _clash(place(key), key, offer) or reader.read(key, given, place(key))
        if isinstance(choice, Finding):
            findings.append(choice)
        elif choice is not None:
            choices[key] = choice
    if findings:
        return findings, offer
    most = _max_workers(offer, choices)
    base = base.model_copy(update={_MAX_WORKERS: most or MOST_WORKERS})
    wrong = [_default(name, key, choice, base, place(key)) for key, choice in choices.items()]
    if "n_workers" in choices:
        wrong.append(_disagreement(name, place("n_workers"), choices, most))
    return [one for one in wrong if one is not None], offer.model_copy(update={"cluster": base})


def _max_workers(offer: OfferSettings, choices: Mapping[str, Choice]) -> int | None:
    """Return the most workers of an offer's clusters: its own, else what n_workers allows; None
    without a limit.
    """
    if _MAX_WORKERS in offer.fixed or _MAX_WORKERS in choices:
        return offer.cluster.max_workers
    choice, given = choices.get("n_workers"), offer.cluster.n_workers
    if choice is not None:
        return None if choice.is_open else max(1, int(choice.high))
    return USUAL_BOUNDS[1] if given is None else max(1, most_of(given))


def _disagreement(
    name: str, where: str, choices: Mapping[str, Choice], most: int | None
) -> Finding | None:
    """Return what is wrong between the bounds of n_workers and max_workers."""
    bound = choices["n_workers"].high
    limit = choices[_MAX_WORKERS].high if _MAX_WORKERS in choices else most
    if bound is None:
        problem = "there is no largest number of workers"
        allowed, advice = "with a max, or with max_workers", f"set max_workers in [offers.{name}]"
        return _wrong(where, problem, None, allowed, advice) if limit is None else None
    if limit == max(1, bound):
        return None
    problem = (
        "max_workers is less than this bound"
        if limit is not None and limit < bound
        else "clusters could scale beyond this bound, up to max_workers"
    )
    allowed = f"max_workers = {bound}, which it is if it is left out"
    return _wrong(where, problem, limit, allowed, f"leave max_workers out of offer {name}")


def _wrong(where: str, problem: str, given: Any, allowed: str, advice: str) -> Finding:
    return Finding(where=where, problem=problem, given=given, allowed=allowed, advice=advice)


def _clash(where: str, key: str, offer: OfferSettings) -> Finding | None:
    """Return what excludes a choice: the same setting's, as a fixed one or another choice."""
    others = [
        other
        for other in EXCLUDED_BY.get(key, ())
        if other in offer.choose or getattr(offer.cluster, other) is not None
    ]
    if not others:
        return None
    return Finding(
        where=where,
        problem=f"{key} takes the place of {', '.join(others)}, which the offer has too",
        given=offer.choose[key],
        allowed="either types by name, or cores and memory",
        advice=f"leave {key} out of the choices, or {' and '.join(others)} out of the offer",
    )


def _unknown(where: str, key: str, given: Any, settings: list[str]) -> Finding:
    near = nearest(key, settings)
    return Finding(
        where=where,
        problem="no setting of [cluster] to choose has this name",
        given=given,
        allowed="a setting of docs/settings.md, section [cluster]",
        advice=f"did you mean {near}?" if near else "remove it",
    )


def _default(
    name: str, key: str, choice: Choice, base: ClusterSettings, where: str
) -> Finding | None:
    """Return what is wrong with the value of a cluster that chooses nothing."""
    value = getattr(base, key)
    if choice.is_any:
        return None
    if key == "n_workers" and value is None:
        value = [min(number, base.max_workers) for number in USUAL_BOUNDS]
    elif value is None:
        return Finding(
            where=where,
            problem=f"{key} has no default",
            allowed=str(choice),
            advice=f"set {key} in [offers.{name}], within its choice",
        )
    if choice.allows(value):
        return None
    return Finding(
        where=where,
        problem=f"without a choice {key} isn't within it",
        given=value,
        allowed=str(choice),
        advice=f"set {key} in [offers.{name}], within its choice",
    )
