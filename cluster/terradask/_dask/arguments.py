"""The arguments of ``Cluster``: which settings they are, and which of them are not built yet.

The signature is that of the documents terradask was made from, whole from the first day: what is not built raises, and nothing is ignored.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from typing import Any

from terradask.errors import ArgumentCombination, InvalidInput, UnsupportedOption

#: Arguments that describe structure: they are settings of the cluster's stack, by their setting's name.
STRUCTURE = {
    "max_workers": "max_workers",
    "scheduler_vm_types": "scheduler_vm_types",
    "scheduler_cpu": "scheduler_cpu",
    "scheduler_memory": "scheduler_memory",
    "scheduler_gpu": "scheduler_gpu",
    "worker_groups": "worker_groups",
    "worker_vm_types": "worker_vm_types",
    "worker_cpu": "worker_cpu",
    "worker_memory": "worker_memory",
    "worker_gpu": "worker_gpu",
    "worker_gpu_type": "worker_gpu_type",
    "worker_disk_size": "worker_disk_size",
    "worker_disk_throughput": "worker_disk_throughput",
    "scheduler_disk_size": "scheduler_disk_size",
    "arm": "arm",
    "spot_policy": "spot_policy",
    "zone_name": "zone_name",
    "use_best_zone": "use_best_zone",
    "allow_cross_zone": "allow_cross_zone",
    "placement_group": "placement_group",
    "scheduler_port": "scheduler_port",
    "use_dashboard_https": "use_dashboard_https",
    "allow_ingress_from": "allow_ingress_from",
    "allow_ssh": "allow_ssh",
    "allow_ssh_from": "allow_ssh_from",
    "scheduler_class": "scheduler_class",
    "scheduler_options": "scheduler_options",
    "extra_worker_on_scheduler": "extra_worker_on_scheduler",
    "worker_class": "worker_class",
    "worker_options": "worker_options",
    "_n_worker_specs_per_host": "workers_per_host",
    "workers_per_host": "workers_per_host",
    "private_to_creator": "private_to_creator",
    "tags": "tags",
}

#: Arguments that describe a run or this client: settings too, which a deployed cluster needn't be changed for.
RUN = {
    "n_workers": "n_workers",
    "environ": "environ",
    "software": "software",
    "software_lock": "software_lock",
    "send_dask_config": "send_dask_config",
    "wait_for_workers": "wait_for_workers",
    "timeout": "create_timeout_seconds",
    "connect": "connect",
    "use_scheduler_public_ip": "use_scheduler_public_ip",
    "idle_timeout": "idle_timeout_seconds",
    "no_client_timeout": "no_client_timeout_seconds",
    "max_lifetime": "max_lifetime_seconds",
}

#: Arguments that are not built, with what stands for "not asked for" and what to do in the meantime.
UNBUILT: dict[str, tuple[tuple[Any, ...], str]] = {
    "container": ((None,), "use `software`, which gives hosts the versions that are installed here"),
    "cloud": ((None,), "leave it out: the AWS account is that of your credentials"),
    "account": ((None,), "leave it out: the AWS account is that of your credentials (AWS_PROFILE chooses them)"),
    "custom_widget": ((None,), "pass `progress`, a function that gets every event"),
    "configure_logging": ((None,), "configure the logger named 'terradask'"),
    "package_sync": ((None, False), "use `software`, which gives hosts the versions that are installed here"),
    "package_sync_strict": ((None, False), "use `software`: its versions are exact"),
    "package_sync_ignore": ((None,), "use `software`: it holds only what you name"),
    "package_sync_fail_on": ((None, "critical-only"), "use `software`: a missing package is an error"),
    "jupyter": ((None, False), "leave it out: a notebook server on the scheduler would run code for whoever reaches its dashboard"),
}


def refuse_unbuilt(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that are not built yet.

    Raises
    ------
    UnsupportedOption
        Naming the first of them, what was given, and what to do in the meantime.
    """
    for name, (nothing, instead) in UNBUILT.items():
        value = arguments.get(name, nothing[0])
        if not any(value is n or value == n for n in nothing):
            raise unsupported(name, value, instead)


def where_given(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is said of region, zone and ingress, be it by arguments of their own or by ``backend_options``.

    Raises
    ------
    ArgumentCombination
        When both say something, and not the same.
    """
    from terradask_stacks.backend_options import read_backend_options

    options = read_backend_options(arguments.get("backend_options"))
    workspace, cluster = options.get("workspace", {}), options.get("cluster", {})
    for argument, option, said, setting in (
        ("region", "region_name", workspace, "region"),
        ("zone_name", "zone_name", cluster, "zone_name"),
    ):
        value, other = arguments.get(argument), said.get(setting)
        if None not in (value, other) and value != other:
            raise ArgumentCombination(
                (argument, "backend_options"),
                f"`{argument}` and `backend_options` name different ones.",
                given=f"{argument}={value!r}, backend_options={{{option!r}: {other!r}}}",
                allowed="one of them, or the same in both",
                advice=f"leave {option} out of backend_options",
            )
        if value is not None:
            said[setting] = value
    return workspace, cluster


def under_either_name(name: str, value: Any, other: str, other_value: Any) -> Any:
    """Return the value of an argument that has two names.

    Raises
    ------
    ArgumentCombination
        When they say different things.
    """
    if None not in (value, other_value) and value != other_value:
        raise ArgumentCombination(
            (name, other),
            f"`{other}` is another name of `{name}`: they can't differ.",
            given=f"{name}={value!r}, {other}={other_value!r}",
            allowed="one of them",
            advice=f"leave `{other}` out",
        )
    return value if value is not None else other_value


def check_credentials(credentials: Any) -> None:
    """Refuse credentials other than ``"local"`` and None.

    Raises
    ------
    InvalidInput
    """
    if credentials not in (None, "local"):
        # It may be the credentials themselves.
        raise InvalidInput(
            "There are no such credentials for a cluster.",
            given=f"credentials, a {type(credentials).__name__}",
            allowed="'local', for temporary ones of yours, or None, for the instance role",
            advice="name a profile of yours by AWS_PROFILE, and pass credentials='local'",
        )


def unsupported(name: str, value: Any, instead: str) -> UnsupportedOption:
    """Return the error for an argument or method that is not built yet."""
    return UnsupportedOption(name, given=value, advice=instead)


def given(arguments: Mapping[str, Any], table: Mapping[str, str]) -> dict[str, Any]:
    """Return those arguments of `table` that were given, by their setting's name; a class as the dotted path by which hosts import it."""
    return {setting: _as_setting(arguments[name]) for name, setting in table.items() if arguments.get(name) is not None}


def _as_setting(value: Any) -> Any:
    if not isinstance(value, type):
        return value
    if value.__module__ == "__main__" or "<locals>" in value.__qualname__:
        raise InvalidInput(
            "Hosts can't import this class.",
            given=f"{value.__module__}.{value.__qualname__}",
            allowed="a class of a module that is installed there, such as distributed.Nanny",
            advice="put it into a package that `software` names",
        )
    package, name = value.__module__.partition(".")[0], value.__name__
    if getattr(sys.modules.get(package), name, None) is value:
        # As people write it, and as it stands in settings: distributed.Nanny.
        return f"{package}.{name}"
    return f"{value.__module__}.{value.__qualname__}"


def structure_given(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a cluster's settings that structural arguments speak of; of groups of workers what their tables speak of."""
    found = {name: settings[name] for name in given if name in settings}
    if "worker_groups" in found:
        tables, groups = given["worker_groups"], found["worker_groups"]
        found["worker_groups"] = {
            name: {key: groups[name][key] for key in table if key in groups[name] and key != "n_workers"}
            for name, table in tables.items()
            if name in groups
        }
    return found


def check_same_structure(cluster: str, wanted: Mapping[str, Any], deployed: Mapping[str, Any]) -> None:
    """Refuse to use a deployed cluster under other structural arguments than it has.

    Raises
    ------
    InvalidInput
        Listing each argument with what was given and what is deployed.
    """
    other = {k: v for k, v in wanted.items() if k in deployed and deployed[k] != v}
    if other:
        raise InvalidInput(
            f"Cluster {cluster!r} is deployed with other settings than were given.",
            given="; ".join(f"{k}={v!r}" for k, v in other.items()),
            allowed="; ".join(f"{k}={deployed[k]!r}" for k in other),
            advice=f"leave them out to use the cluster as it is, choose another name, or destroy it first: terradask destroy {cluster}",
        )


def parse_name(name: str | None) -> str:
    """Return the cluster's name, made up where none is given.

    Raises
    ------
    InvalidInput
        When AWS would refuse what is named after it.
    """
    from terradask_stacks.settings import validate_cluster_name

    if name is None:
        return f"dask-{secrets.token_hex(4)}"
    if not isinstance(name, str):
        raise InvalidInput("A cluster's name is text.", given=name, allowed="such as 'etl'", advice="pass a string")
    return validate_cluster_name(name)
