"""The two JSON lines that start a Dask process: one before it imports distributed, one to start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from terradask_host.agent.keys import KeyFiles
from terradask_host.config import LOOPBACK, HostConfig, Paths
from terradask_host.documents import Run
from terradask_host.errors import ConfigInvalid
from terradask_host.metadata import Identity
from terradask_host.rules.membership import EXTRA_WORKER_PREFIX
from terradask_host.rules.policy import worker_memory_limit_bytes
from terradask_host.structure import Structure, WorkerEntry, worker_names
from terradask_host.timing import Timing

#: Lowest TLS version; Dask itself would accept 1.2.
TLS_MIN_VERSION = 1.3

#: Module that worker processes load instead of their HTTP servers' pages.
WORKER_ROUTES = "terradask_host.preload.worker_http"

#: Options that the host sets: they decide on listening addresses and trusted peers, or carry the
#: host's name. A notebook server on the dashboard would run code for each visitor of the dashboard:
#: https://github.com/dask/distributed/pull/6737
RESERVED_OPTIONS = {
    "scheduler": frozenset(
        {"security", "protocol", "host", "port", "interface", "dashboard_address", "jupyter"}
    ),
    "worker": frozenset(
        {
            "security",
            "protocol",
            "host",
            "interface",
            "name",
            "dashboard_address",
            "scheduler_ip",
            "scheduler_port",
            "scheduler_file",
        }
    ),
}


def prepare_document(role: str, run: Run, keys: KeyFiles, scratch: Path) -> dict[str, Any]:
    """Return the role and Dask's configuration, needed before distributed is imported.

    The configuration is the caller's with the host's TLS on top, so that connections of tasks
    (``get_client``, their own ``Security()``) use TLS with this host's certificate too. The host
    replaces the caller's temporary directory. Workers' HTTP servers don't listen.
    """
    bundle = {"cert": str(keys.cert), "key": str(keys.key)}
    tls = {
        "ca-file": str(keys.ca),
        "min-version": TLS_MIN_VERSION,
        "scheduler": dict(bundle),
        "worker": dict(bundle),
        "client": dict(bundle),
    }
    routes = {"worker": {"http": {"routes": [WORKER_ROUTES]}}} if role == "worker" else {}
    return {
        "role": role,
        "dask_config": dict(run.dask_config or {}),
        "host_config": {
            "temporary-directory": str(scratch),
            "distributed": {"comm": {"require-encryption": True, "tls": tls}, **routes},
        },
    }


def security_arguments(role: str, keys: KeyFiles) -> dict[str, Any]:
    """Return the arguments of ``distributed.Security`` for a role."""
    return {
        "require_encryption": True,
        "tls_ca_file": str(keys.ca),
        f"tls_{role}_cert": str(keys.cert),
        f"tls_{role}_key": str(keys.key),
        "tls_client_cert": str(keys.cert),
        "tls_client_key": str(keys.key),
    }


def scheduler_document(
    identity: Identity,
    cluster: Structure,
    keys: KeyFiles,
    life: Mapping[str, Any],
    timing: Timing,
    *,
    paths: Paths,
    loopback: str = LOOPBACK,
    scaling: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the scheduler's start document.

    It listens on the private address; its dashboard listens at a socket behind the forward, which
    also leads to the socket of a notebook server, if there is one. Both ports also listen on
    `loopback`, for Session Manager. `life` has the limits of its lifetime, ``members`` the allowed
    worker names, `scaling` the policies of adaptive groups.
    """
    wanted = cluster.scheduler
    _refuse_reserved("scheduler", wanted.options)
    own = {"host": identity.private_address, "cert": str(keys.cert), "key": str(keys.key)}
    report = {
        "source_code": wanted.performance_report == "with_source",
        "seconds": timing.performance_report_seconds,
    }
    https_port = wanted.dashboard_https_port
    return {
        "class": wanted.class_name,
        "security": security_arguments("scheduler", keys),
        "arguments": {
            "host": identity.private_address,
            "port": wanted.port,
            "protocol": "tls",
            # Only its presence counts: it listens at its socket.
            "dashboard_address": str(paths.dashboard_socket),
            **wanted.options,
        },
        "dashboard_socket": str(paths.dashboard_socket),
        "forward": {
            **own,
            "port": wanted.dashboard_port,
            "ca": str(keys.ca),
            "metrics_cert": None if keys.metrics_cert is None else str(keys.metrics_cert),
        },
        "shared_dashboard": {**own, "port": https_port} if https_port else None,
        "jupyter_socket": str(paths.jupyter_socket) if wanted.jupyter else None,
        "loopback": {
            "host": loopback,
            "ports": [wanted.port, wanted.dashboard_port],
            "target": identity.private_address,
        },
        "life": dict(life),
        "scaling": dict(scaling or {}),
        "worker_report_seconds": timing.join_poll_seconds,
        "performance_report": None if wanted.performance_report == "off" else report,
        "gauge_seconds": timing.gauge_seconds if wanted.metrics == "cloudwatch" else None,
        "usage_seconds": timing.usage_seconds,
        "members": {
            "workers_per_host": cluster.worker.workers_per_host,
            "numbered_by_class": cluster.worker.may_make_several,
            "extra_worker": extra_worker_name(identity) if wanted.extra_worker else None,
            "patience_seconds": timing.member_patience_seconds,
            "ask_seconds": timing.member_ask_seconds,
        },
    }


def jupyter_document(paths: Paths, scheduler: str, *, allow_root: bool) -> dict[str, Any]:
    """Return the notebook server's start document; kernels get the scheduler from Dask's config."""
    return {
        "scheduler": scheduler,
        "socket": str(paths.jupyter_socket),
        "runtime": str(paths.jupyter),
        "notebooks": str(paths.notebooks),
        "allow_root": allow_root,
    }


def worker_document(
    config: HostConfig,
    identity: Identity,
    cluster: Structure,
    scheduler: str,
    keys: KeyFiles,
) -> dict[str, Any]:
    """Return the start document of the host's workers, named like their instance.

    Together they use the whole machine unless options set less. Each has its share of the GPUs as a
    resource, and the resources of its group. Each worker of a class that makes several, such as
    ``dask_cuda.CUDAWorker``, has one GPU and one thread, as in that class.
    """
    wanted = cluster.worker
    names = worker_names(identity.instance_id, wanted.workers_per_host)
    for_each_gpu = config.gpu_count > 0 and wanted.may_make_several
    number = config.gpu_count if for_each_gpu else len(names)
    size = {
        "nthreads": 1 if for_each_gpu else max(config.cpu_count // number, 1),
        "memory_limit": worker_memory_limit_bytes(config.memory_bytes) // number,
    }
    arguments = _worker_arguments(config, identity) | size | dict(wanted.options)
    given = wanted.options.get("resources") or {}
    of_group = cluster.groups[identity.group].resources
    if isinstance(given, Mapping):
        has = {"GPU": config.gpu_count / number} if config.gpu_count else {}
        resources = {**has, **given, **of_group}
        arguments |= {"resources": resources} if resources else {}
    elif of_group:
        raise ConfigInvalid(
            "resources of worker_options are text, and the group has resources of its own.",
            given=given,
            allowed="a table, such as { GPU = 1 }",
        )
    return _workers(wanted, scheduler, keys, [{"name": name, **arguments} for name in names])


def extra_worker_document(
    config: HostConfig,
    identity: Identity,
    cluster: Structure,
    scheduler: str,
    keys: KeyFiles,
) -> dict[str, Any]:
    """Return the start document of the worker beside the scheduler.

    The scheduler keeps half of the memory and a thread, whatever options set.
    """
    wanted = cluster.worker
    size = {
        "nthreads": max(config.cpu_count - 1, 1),
        "memory_limit": worker_memory_limit_bytes(config.memory_bytes) // 2,
    }
    arguments = _worker_arguments(config, identity) | dict(wanted.options) | size
    return _workers(wanted, scheduler, keys, [{"name": extra_worker_name(identity), **arguments}])


def extra_worker_name(identity: Identity) -> str:
    """Return the name of the worker beside the scheduler on this host."""
    return f"{EXTRA_WORKER_PREFIX}{identity.instance_id}"


def _worker_arguments(config: HostConfig, identity: Identity) -> dict[str, Any]:
    return {
        "host": identity.private_address,
        "protocol": "tls",
        "local_directory": str(config.paths.scratch),
        # A class that listens all the same does so only on loopback.
        "dashboard_address": "127.0.0.1:0",
    }


def _workers(
    wanted: WorkerEntry, scheduler: str, keys: KeyFiles, workers: list[dict[str, Any]]
) -> dict[str, Any]:
    _refuse_reserved("worker", wanted.options)
    return {
        "class": wanted.class_name,
        "security": security_arguments("worker", keys),
        "scheduler": scheduler,
        "workers": workers,
    }


def _refuse_reserved(role: str, options: Mapping[str, Any]) -> None:
    reserved = sorted(RESERVED_OPTIONS[role] & options.keys())
    if reserved:
        raise ConfigInvalid(
            f"{role}_options sets what the host sets.",
            given=", ".join(reserved),
            allowed=(
                f"any option of the {role} class but {', '.join(sorted(RESERVED_OPTIONS[role]))}"
            ),
            advice="Remove it; ports are settings of the cluster.",
        )
