"""Limits of one caller's own: what AWS evaluates, in each call, on the size and the types of a
cluster's groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from terradask_modules.errors import InvalidInput
from terradask_modules.iam import Condition, both, one_or_many, present
from terradask_modules.names import CLUSTER_PATTERN

#: AWS (documented): EC2's types with GPUs, FPGAs or chips for machine learning have a name that
#: begins with dl, f, g, inf, p, trn or vt; the first one had cg. No other type's name does.
#: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
ACCELERATED = ("cg", "dl", "f", "g", "inf", "p", "trn", "vt")

#: AWS (documented, asg-instance-types-key): autoscaling:InstanceTypes has the types that a
#: request's overrides of a launch template name, and is missing from a request without any.
#: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
_IN_GROUPS = "autoscaling:InstanceTypes"
_IN_LAUNCHES = "ec2:InstanceType"
_TEMPLATE = "autoscaling:LaunchTemplateVersionSpecified"

_TYPE = re.compile(r"[a-z?*][a-z0-9?*-]*(?:\.[a-z0-9?*-]+)?")


def _is_type(pattern: str) -> bool:
    return _TYPE.fullmatch(pattern) is not None and ("." in pattern or pattern.endswith("*"))


@dataclass(frozen=True, kw_only=True)
class CallerLimits:
    """The most that a caller who makes clusters may ask AWS for in one call.

    Raises `InvalidInput` for limits that leave nothing.
    """

    #: Most hosts of one Auto Scaling group. None: any number.
    max_workers: int | None = None
    #: Instance types of all hosts, schedulers' too, as patterns with ``*`` and ``?``. Empty: any.
    types: tuple[str, ...] = field(default=())
    #: Whether types with GPUs or other accelerators are among them.
    gpus: bool = True
    #: Names of the only clusters that it makes, changes and uses; a star at the end means all that
    #: begin so. Empty: any.
    clusters: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.max_workers is not None and self.max_workers < 1:
            raise InvalidInput(
                "no cluster has fewer than one worker at most",
                given=self.max_workers,
                allowed="1 or more",
            )
        for pattern in self.types:
            self._check(pattern)
        for name in self.clusters:
            if not re.fullmatch(CLUSTER_PATTERN, name.removesuffix("*")):
                raise InvalidInput(
                    "no cluster has such a name",
                    given=name,
                    allowed="a cluster's name, or the beginning of names with a star at the end",
                )

    def _check(self, pattern: str) -> None:
        if not _is_type(pattern):
            small = pattern.lower()
            like = f"{small}.*" if small.isalnum() else small
            raise InvalidInput(
                "no instance type has such a name",
                given=pattern,
                allowed="types such as m6i.large, or patterns such as m6i.* and c7*, in small "
                "letters",
                advice=None
                if not _is_type(like)
                else f"write {like}" + (" for all sizes" if like != small else ""),
            )
        if not self.gpus and pattern.startswith(ACCELERATED):
            raise InvalidInput(
                "all types of this pattern have GPUs or other accelerators, which are excluded",
                given=pattern,
                allowed="patterns of types without them",
                advice="leave out the pattern, or the exclusion of GPUs",
            )

    @property
    def bound_types(self) -> bool:
        """Whether the types are limited."""
        return bool(self.types) or not self.gpus

    @property
    def in_new_groups(self) -> Condition:
        """Condition of making a group. Its maximum is always in the request."""
        return both(self._size("NumericLessThanEquals"), self._types_of_groups())

    @property
    def in_changed_groups(self) -> list[Condition]:
        """The conditions of changing a group, any of which suffices.

        With limited types: a change of numbers alone, which names neither types nor a template; or
        one that names types.
        """
        size = self._size("NumericLessThanEqualsIfExists")
        if not self.bound_types:
            return [size]
        return [
            both(size, {"Null": {_IN_GROUPS: "true", _TEMPLATE: "true"}}),
            both(size, self._types_of_groups()),
        ]

    @property
    def in_launches(self) -> Condition:
        """Condition of launching an instance."""
        wanted = self._types(_IN_LAUNCHES)
        return both(wanted, present(_IN_LAUNCHES)) if wanted else {}

    def _size(self, operator: str) -> Condition:
        if self.max_workers is None:
            return {}
        return {operator: {"autoscaling:MaxSize": str(self.max_workers)}}

    def _types_of_groups(self) -> Condition:
        """All types of the overrides are allowed ones, and there are some: a group without takes
        those of its template.
        """
        wanted = self._types(_IN_GROUPS, "ForAllValues:")
        return both(wanted, present(_IN_GROUPS)) if wanted else {}

    def _types(self, key: str, quantifier: str = "") -> Condition:
        found: Condition = {}
        if self.types:
            found[f"{quantifier}StringLike"] = {key: one_or_many(self.types)}
        if not self.gpus:
            refused = [f"{family}*" for family in ACCELERATED]
            found[f"{quantifier}StringNotLike"] = {key: refused}
        return found

    def sentences(self) -> Iterator[str]:
        """Yield what is limited, for people."""
        if self.max_workers is not None:
            yield f"at most {self.max_workers} hosts in one Auto Scaling group"
        if self.types:
            yield f"types {_and(self.types)}"
        if not self.gpus:
            yield "no types with GPUs or other accelerators"
        if self.clusters:
            yield f"clusters named {_and(self.clusters)}"


def _and(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
