"""Select hosts' packages from a scanned environment: resolved ones, missing ones and other
versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from terradask._software.pylock import Selected
from terradask._software.refused import origins_refused
from terradask._software.resolver import Resolver, Unsolvable, lacking, name_of, unsolvable_reason
from terradask._software.scan import OWN, Scan
from terradask.errors import SoftwareNotResolved, SoftwareUnusable

if TYPE_CHECKING:
    from terradask_stacks.settings.software import SoftwareSettings

FailOn = Literal["critical-only", "warning-or-higher", "any"]

_NO_WHEEL = "the index has no wheel of it for hosts"
#: uv's message about one package -> reason.
_REASONS = (
    ("was not found in the package registry", "no index has it"),
    ("there is no version of", "no index has this version of it"),
)


@dataclass(frozen=True)
class PackageSync:
    """The packages of the running environment that hosts get, and the allowed differences."""

    #: All (True), these with their dependencies, or none (False).
    packages: bool | Sequence[str] = True
    #: Packages to leave out, unless others need them.
    ignore: Sequence[str] = ()
    #: Whether all packages must have the local version.
    strict: bool = False
    #: Which missing packages are errors: those that Dask needs, or all, or also other versions.
    fail_on: FailOn = "critical-only"
    #: Whether hosts also get the Python files of the working directory.
    local_modules: bool = False

    @classmethod
    def of(cls, settings: SoftwareSettings) -> PackageSync:
        """Read a cluster's settings; all packages, unless the settings name packages elsewhere."""
        packages = settings.package_sync
        if packages is None:
            packages = not (settings.software or settings.software_lock or settings.container)
        return cls(
            packages,
            tuple(map(canonicalize_name, settings.package_sync_ignore)),
            settings.package_sync_strict,
            settings.package_sync_fail_on,
            settings.local_modules,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that `of` reads."""
        named = self.packages if isinstance(self.packages, bool) else list(self.packages)
        return {
            "package_sync": named,
            "package_sync_ignore": list(self.ignore),
            "package_sync_strict": self.strict,
            "package_sync_fail_on": self.fail_on,
            "local_modules": self.local_modules,
        }

    def __bool__(self) -> bool:
        """Whether hosts get any of the environment's packages."""
        return bool(self.packages)


@dataclass(frozen=True)
class Synced(Selected):
    """The packages of an environment for hosts."""

    #: Missing package -> reason.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: Package -> local version, hosts' version.
    changed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Packages that are built locally for hosts.
    built: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sync:
    """Resolve the packages of a scanned environment for hosts with `resolve`."""

    scan: Scan
    resolve: Resolver
    #: Packages that every cluster needs, in exactly these versions.
    critical: Collection[str]
    options: PackageSync = PackageSync()
    #: Packages of the options with their dependencies; None for all.
    only: Collection[str] | None = None
    #: Packages that only terradask needs: hosts get them if possible.
    own: Collection[str] = (OWN,)

    def __call__(self) -> Synced:
        """Return the hosts' packages. Raises `SoftwareUnusable`, and the resolver's errors."""
        refused = self._refused()
        try:
            locked = self.resolve(
                self._wanted, overrides=self._pins.values(), excludes=self._excludes()
            )
            found = self._synced(locked, refused)
        except Unsolvable as error:
            absent = lacking(self.resolve, self._wanted)
            if not absent:
                raise SoftwareNotResolved(str(error)) from None
            found = self._without(absent, refused)
        if found.missing and self.options.fail_on != "critical-only":
            raise _not_synced(found.missing, found.changed)
        if found.changed and self.options.fail_on == "any":
            raise _not_synced({}, found.changed)
        return found

    def _refused(self) -> dict[str, str]:
        """Return packages that hosts can't have, with the reason."""
        refused = {
            p.name: f"{p.version}, {p.why}" for p in self.scan.packages if p.verdict == "refused"
        }
        critical = {name: why for name, why in refused.items() if name in self.critical}
        if critical:
            raise origins_refused(critical)
        refused |= {a.name: a.refused for a in self.scan.added if a.refused is not None}
        return {name: why for name, why in refused.items() if self._is_wanted(name)}

    def _is_wanted(self, name: str) -> bool:
        if name in self.critical:
            return True
        asked = self.only is None or name in self.only
        return asked and name != OWN and name not in self.options.ignore

    @property
    def _pins(self) -> dict[str, str]:
        """Local versions of all packages from an index by name, also of dependencies alone."""
        return {
            p.name: f"{p.name}=={p.version}" for p in self.scan.packages if p.verdict == "taken"
        }

    @property
    def _built(self) -> tuple[str, ...]:
        return tuple(
            p.name
            for p in self.scan.packages
            if p.verdict == "built" and p.name not in self.own and self._is_wanted(p.name)
        )

    @property
    def _wanted(self) -> list[str]:
        pins = [pin for name, pin in self._pins.items() if self._is_wanted(name)]
        return pins + [
            each.requirement
            for each in self.scan.added
            if each.refused is None
            and each.name not in self.options.ignore
            and any(map(self._is_wanted, each.needed_by))
        ]

    def _excludes(self, more: Iterable[str] = ()) -> list[str]:
        """Return names that no index is asked for: those from no index, and `more`."""
        foreign = {p.name for p in self.scan.packages if p.origin != "index"}
        foreign |= {each.name for each in self.scan.added if each.refused is not None}
        return sorted(foreign.union(more))

    def _without(self, absent: Sequence[str], refused: Mapping[str, str]) -> Synced:
        """Resolve without `absent`, or with other versions of them if allowed."""
        names = set(map(name_of, absent))
        whys = {name_of(text): self._why(text) for text in absent}
        critical = {name: why for name, why in whys.items() if name in self.critical}
        if critical:
            raise _not_synced(critical, {})
        left = [text for text in self._wanted if text not in absent]
        pins = {name: pin for name, pin in self._pins.items() if name not in names}
        if not self.options.strict:
            others = _other_versions(self._pins[name] for name in names & self._pins.keys())
            locked, found = self._in_other_versions(left, others, pins, names)
            if locked is not None:
                left_out = {name: why for name, why in whys.items() if name not in found}
                return self._synced(locked, {**refused, **left_out})
        try:
            locked = self.resolve(left, overrides=pins.values(), excludes=self._excludes(names))
        except Unsolvable as error:
            raise SoftwareNotResolved(str(error)) from None
        return self._synced(locked, {**refused, **whys})

    def _why(self, requirement: str) -> str:
        message = unsolvable_reason(self.resolve, [requirement]) or ""
        return next((why for text, why in _REASONS if text in message), _NO_WHEEL)

    def _in_other_versions(
        self,
        left: Sequence[str],
        others: Sequence[str],
        pins: Mapping[str, str],
        names: Collection[str],
    ) -> tuple[Selected | None, frozenset[str]]:
        """Resolve with all other versions, or each with a solution; return their names too."""
        hopeless = lacking(self.resolve, others)
        others = [text for text in others if text not in hopeless]
        alone = [[each] for each in others] if len(others) > 1 else []
        taken: list[str] = []
        locked = None
        for more in [others, *alone] if others else []:
            gone = set(names).difference(map(name_of, taken + more))
            try:
                # Other versions must suit their dependents: nothing is overridden.
                locked = self.resolve(
                    [*left, *taken, *more], constraints=pins.values(), excludes=self._excludes(gone)
                )
            except Unsolvable:
                continue
            taken += more
            if more is others:
                break
        return locked, frozenset(map(name_of, taken))

    def _synced(self, locked: Selected, missing: Mapping[str, str]) -> Synced:
        here = {p.name: p.version for p in self.scan.packages if p.verdict == "taken"}
        changed = {
            name: (here[name], version)
            for name, version in locked.packages.items()
            if name in here and Version(here[name]) != Version(version)
        }
        changed |= {
            one.name: (here[one.name], one.version)
            for one in locked.direct
            if one.version and one.name in here and Version(here[one.name]) != Version(one.version)
        }
        missed = {name: why for name, why in missing.items() if name not in self.own}
        return Synced(**vars(locked), missing=missed, changed=changed, built=self._built)


def _other_versions(pins: Iterable[str]) -> list[str]:
    """Return requirements in place of exact versions: the public version of a local one, otherwise
    the newest of the same major version.
    """
    found = []
    for requirement in map(Requirement, pins):
        (specifier,) = requirement.specifier
        version = Version(specifier.version)
        other = version.public if version.local else f"{version.epoch}!{version.major}.*"
        found.append(f"{requirement.name}=={other}")
    return found


def _not_synced(
    missing: Mapping[str, str], changed: Mapping[str, tuple[str, str]]
) -> SoftwareUnusable:
    """Return the error for packages that are missing or have other versions on hosts."""
    found = [f"{name}: {why}" for name, why in sorted(missing.items())]
    found += [
        f"{name}: {here} locally, {there} on hosts"
        for name, (here, there) in sorted(changed.items())
    ]
    return SoftwareUnusable(
        "Hosts can't have all packages as they are installed locally.",
        given="; ".join(found),
        allowed="packages from an index that has a wheel of this version for hosts",
        advice=(
            "install other versions locally, leave packages out with `package_sync_ignore`, or "
            "with package_sync_fail_on='critical-only' do without those that Dask doesn't need"
        ),
    )
