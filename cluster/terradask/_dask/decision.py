"""Whether a name is deployed anew, started or attached to: by what is there, and by what is allowed. Pure."""

from __future__ import annotations

from typing import Literal

from terradask.errors import ArgumentCombination, ClusterExists, ClusterNotFound, ClusterStopped

#: What there is of a name.
Found = Literal["nothing", "stopped", "running"]

Decision = Literal["deploy", "start", "attach"]


def check_exclusive(create: bool | None, attach: bool | None) -> None:
    """Refuse arguments of which one excludes the other.

    Raises `ArgumentCombination`.
    """
    if create and attach:
        raise ArgumentCombination(
            ("create", "attach"),
            "A cluster can't be new and run already.",
            given="create=True, attach=True",
            allowed="one of them; with neither, a cluster that runs is attached to, one that is stopped is started, and any other is made",
            advice="leave one of them out",
        )


def closing_error(name: str) -> ClusterStopped:
    """Return the error for a cluster that shall go, where none may be made in its place."""
    return ClusterStopped(
        f"Cluster {name!r} is over, and its deployment shall go.",
        cluster=name,
        advice=f"terradask destroy {name} removes what is left; Cluster(name={name!r}) does so too, and makes it anew",
    )


def decide(name: str, found: Found, *, create: bool | None, attach: bool | None) -> Decision:
    """Decide how to use a name.

    Raises `ClusterExists`, `ClusterNotFound`, `ClusterStopped`.
    """
    if found == "nothing":
        if attach or create is False:
            raise ClusterNotFound(
                f"There is no cluster {name!r} in this workspace.",
                cluster=name,
                given="attach=True" if attach else "create=False",
                advice="terradask list shows those there are",
            )
        return "deploy"
    if create:
        raise ClusterExists(
            f"Cluster {name!r} is deployed already.",
            cluster=name,
            given="create=True",
            allowed="a name that is not in use; terradask list shows those that are",
            advice=f"choose another name, leave `create` out to use the cluster, or destroy it first: terradask destroy {name}",
        )
    if found == "running":
        if attach is False:
            raise ClusterExists(
                f"Cluster {name!r} runs already.",
                cluster=name,
                given="attach=False",
                allowed="a cluster that is stopped, or a name that is not in use",
                advice=f"choose another name, leave `attach` out to share the cluster, or stop it first: terradask stop {name}",
            )
        return "attach"
    if attach:
        raise ClusterStopped(
            f"Cluster {name!r} is stopped.",
            cluster=name,
            given="attach=True",
            advice=f"terradask start {name}, or Cluster(name={name!r})",
        )
    return "start"
