"""What isn't a cluster's, although a document of the cluster names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from terradask.errors._cluster import ClusterError, DocumentFormat

#: So many resources are shown of many.
_SHOWN = 5


class ForeignResources(ClusterError):
    """Something that a command was to change isn't the cluster's, so nothing of it was changed.

    Parameters
    ----------
    resources
        Each with ``type``, ``id`` and ``why``; those of a state also with their ``address``.
    """

    exit_code = 8

    def __init__(
        self,
        problem: str,
        *,
        cluster: str,
        resources: Iterable[Mapping[str, str]],
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        found = tuple(dict(one) for one in resources)
        lines = [
            f"{one.get('address') or one['type']} ({one['id']}): {one['why']}" for one in found
        ]
        if len(lines) > _SHOWN:
            lines[_SHOWN:] = [f"and {len(lines) - _SHOWN} more"]
        super().__init__(
            problem, cluster=cluster, given="; ".join(lines), allowed=allowed, advice=advice
        )
        self.resources = found


class ForeignDescriptor(DocumentFormat):
    """``cluster.json`` names something that isn't the cluster's: it was not written by an apply."""

    exit_code = 8
