"""Packages with what they need, among those that are installed here."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from terradask._software.hosts import applies
from terradask._software.scan import Installed, needers_by_name, spread

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
