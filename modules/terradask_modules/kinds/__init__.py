"""Every type of resource that terradask makes or finds, and what it knows of each: a file per
resource of AWS's, with its parts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pkgutil import iter_modules

from terradask_modules.kinds.kind import ResourceKind

__all__ = ["KINDS"]


def _in_files() -> Iterator[ResourceKind]:
    """Yield what the files beside this one define."""
    for file in iter_modules(__path__, f"{__name__}."):
        yield from (
            one for one in vars(import_module(file.name)).values() if type(one) is ResourceKind
        )


def _in_order(kinds: dict[str, ResourceKind]) -> dict[str, ResourceKind]:
    order = TopologicalSorter({name: kind.after for name, kind in kinds.items()}).static_order()
    return {name: kinds[name] for name in order}


#: Terraform's type -> its kind. Resources are made and adopted in this order, in which each comes
#: after those that its kind names, and deleted in the opposite one.
KINDS: dict[str, ResourceKind] = _in_order({kind.terraform: kind for kind in _in_files()})
