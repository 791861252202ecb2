"""Decide from state and arguments whether to deploy, start or attach to a cluster, and check that
the arguments match it. No calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from terradask.errors import (
    ClusterExists,
    ClusterNotFound,
    ClusterStopped,
    InvalidInput,
)
from terradask_stacks.errors import SettingsError

if TYPE_CHECKING:
    from terradask._clusters.attach import Found
    from terradask_stacks.settings import ClusterSettings, Settings

Decision = Literal["deploy", "start", "attach"]


def check_exclusive(create: bool | None, attach: bool | None) -> None:
    """Check that arguments don't exclude each other. Raises `InvalidInput`."""
    if create and attach:
        raise InvalidInput(
            "A cluster can't be both new and running.",
            given="create=True, attach=True",
            allowed=(
                "one of them; with neither, a running cluster is attached to, a stopped one "
                "is started, and any other is deployed"
            ),
            advice="leave one of them out",
        )


def closing_error(name: str) -> ClusterStopped:
    """Return the error for a cluster marked for destruction, if no new one may be created."""
    return ClusterStopped(
        f"Cluster {name!r} has ended, and its deployment is marked for destruction.",
        cluster=name,
        advice=(
            f"terradask destroy {name} removes what is left; Cluster(name={name!r}) does so "
            "too, and deploys it again"
        ),
    )


def decide(name: str, found: Found, *, create: bool | None, attach: bool | None) -> Decision:
    """Decide how to use a name. Raises `ClusterExists`, `ClusterNotFound`, `ClusterStopped`."""
    if found == "nothing":
        if attach or create is False:
            raise ClusterNotFound(
                f"There is no cluster {name!r} in this workspace.",
                cluster=name,
                given="attach=True" if attach else "create=False",
                advice="terradask list shows the existing ones",
            )
        return "deploy"
    if create:
        raise ClusterExists(
            f"Cluster {name!r} is already deployed.",
            cluster=name,
            given="create=True",
            allowed="a name that is not in use; terradask list shows those in use",
            advice=(
                "choose another name, leave `create` out to use the cluster, or destroy it "
                f"first: terradask destroy {name}"
            ),
        )
    if found == "running":
        if attach is False:
            raise ClusterExists(
                f"Cluster {name!r} is already running.",
                cluster=name,
                given="attach=False",
                allowed="a stopped cluster, or a name that is not in use",
                advice=(
                    "choose another name, leave `attach` out to share the cluster, or stop it "
                    f"first: terradask stop {name}"
                ),
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


def check_offer(settings: Settings, cluster: ClusterSettings, given: Iterable[str]) -> None:
    """Check arguments for a deployed cluster against its offer, if the settings have that one.

    Raises `SettingsError`.
    """
    offer = settings.offers.get(cluster.offer or "")
    if cluster.offer is None or offer is None:
        return
    from terradask_stacks.offers import beyond

    if found := beyond(cluster.offer, offer, cluster, given, lambda name: f"argument {name}"):
        raise SettingsError(tuple(found.values()))


def structure_given(settings: ClusterSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of structural arguments in the form of a settings file; of worker groups,
    only the keys that their tables have.
    """
    # Another version may have written other types.
    found = settings.model_dump(mode="json", include=set(given), warnings=False)
    if "worker_groups" in found:
        tables, groups = given["worker_groups"], found["worker_groups"]
        found["worker_groups"] = {
            name: {
                key: groups[name][key]
                for key in table
                if key in groups[name] and key != "n_workers"
            }
            for name, table in tables.items()
            if name in groups
        }
    return found


def check_same_structure(
    cluster: str, wanted: Mapping[str, Any], deployed: Mapping[str, Any]
) -> None:
    """Check that structural arguments match the deployed cluster. Raises `InvalidInput`."""
    other = {k: v for k, v in wanted.items() if k in deployed and deployed[k] != v}
    if other:
        raise InvalidInput(
            f"Cluster {cluster!r} is deployed with settings other than the given ones.",
            given="; ".join(_assigned(k, v) for k, v in other.items()),
            allowed="; ".join(_assigned(k, deployed[k]) for k in other),
            advice=(
                "leave them out to use the cluster as deployed, choose another name, or "
                f"destroy it first: terradask destroy {cluster}"
            ),
        )


def _assigned(name: str, value: Any) -> str:
    return f"no {name}" if value is None else f"{name}={value!r}"
