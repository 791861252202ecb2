"""Read the arguments of ``Cluster`` into a checked request, before any resource is created."""

from __future__ import annotations

import importlib.metadata
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import InvalidRequirement, Requirement

from terradask._clusters.lifetime import parse_duration
from terradask._dask.arguments import ARGUMENT_OF, RUN_SETTINGS, ClusterArguments
from terradask._dask.decision import check_exclusive
from terradask.errors import InvalidInput


@dataclass(frozen=True)
class Request:
    """The checked arguments of a ``Cluster``."""

    name: str
    #: The given settings of the cluster, not yet validated.
    given: Mapping[str, Any] = field(default_factory=dict)
    workspace: Mapping[str, Any] = field(default_factory=dict)
    #: Setting -> the name of the given argument, if it differs.
    typed: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    create: bool | None = None
    attach: bool | None = None
    #: Whether the cluster ends with its `Cluster` object; None: if that object created or started
    #: it.
    shutdown_on_close: bool | None = None
    #: Whether the cluster gets the caller's temporary credentials, and for how long.
    credentials: Literal["local"] | None = None
    credentials_duration_seconds: int | None = None

    @property
    def structure(self) -> dict[str, Any]:
        """The given settings that must match a deployed cluster."""
        return {name: self.given[name] for name in self.given if name not in RUN_SETTINGS}


def read_request(arguments: ClusterArguments) -> Request:
    """Read the arguments of a cluster. Raises `InvalidInput`."""
    from terradask._aws.credentials import check_duration

    check_exclusive(arguments.create, arguments.attach)
    arguments.refuse_unsupported()
    _check_credentials(arguments.credentials)
    workspace, location = _location_given(arguments)
    normal = _normalise(arguments)
    return Request(
        name=parse_name(arguments.name),
        given={
            **_as_settings(normal.given("structure")),
            **location,
            **_with_one_package_source(
                _as_settings(normal.given("run")), has_container=normal.container is not None
            ),
        },
        workspace=workspace,
        typed=_argument_names(arguments),
        path=None if arguments.settings is None else Path(arguments.settings),
        create=arguments.create,
        attach=arguments.attach,
        shutdown_on_close=arguments.shutdown_on_close,
        credentials=arguments.credentials,
        credentials_duration_seconds=check_duration(arguments.credentials_duration_seconds),
    )


def _normalise(arguments: ClusterArguments) -> ClusterArguments:
    """Return the arguments with aliases merged and values in the form of settings."""
    market, lock = arguments.compute_purchase_option, arguments.software_lock
    each = arguments._n_worker_specs_per_host
    return replace(
        arguments,
        spot_policy=_merge_alias(
            "spot_policy", arguments.spot_policy, "compute_purchase_option", market
        ),
        workers_per_host=_merge_alias(
            "workers_per_host", arguments.workers_per_host, "_n_worker_specs_per_host", each
        ),
        software=_software(arguments.software),
        # As a setting it would be relative to terradask.toml.
        software_lock=None if lock is None else str(Path(lock).expanduser().absolute()),
        idle_timeout=parse_duration("idle_timeout", arguments.idle_timeout),
        no_client_timeout=parse_duration("no_client_timeout", arguments.no_client_timeout),
        # A wait must have a limit.
        timeout=parse_duration("timeout", arguments.timeout, never=False) or None,
        max_lifetime=parse_duration("max_lifetime", arguments.max_lifetime),
        # False and 0: AWS is asked once.
        capacity_timeout=0
        if arguments.capacity_timeout in (False, 0)
        else parse_duration(
            "capacity_timeout",
            arguments.capacity_timeout,
            never=False,
            also="; False: AWS's first refusal is an error",
        ),
    )


def _argument_names(arguments: ClusterArguments) -> dict[str, str]:
    """Return setting -> the name of the given argument, if it differs."""
    typed = {
        setting: argument
        for setting, argument in ARGUMENT_OF.items()
        if getattr(arguments, argument) is not None
    }
    if arguments.spot_policy is None:
        typed["spot_policy"] = "compute_purchase_option"
    if arguments.workers_per_host is None:
        typed["workers_per_host"] = "_n_worker_specs_per_host"
    return typed


def _software(given: Any) -> Any:
    """Return requirements, the name of an environment, or an absolute path of a file: in settings,
    paths are relative to ``terradask.toml``.
    """
    from terradask_stacks.validators.dask import is_software_file

    if isinstance(given, os.PathLike) or (isinstance(given, str) and is_software_file(given)):
        return str(Path(given).expanduser().absolute())
    return [given] if isinstance(given, str) and _is_installed(given) else given


def _is_installed(text: str) -> bool:
    """Return whether a text names a locally installed package: it takes precedence over an
    environment of that name.
    """
    try:
        importlib.metadata.distribution(Requirement(text).name)
    except (InvalidRequirement, importlib.metadata.PackageNotFoundError):
        return False
    return True


def _as_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in the form of a file: classes as dotted import paths, tuples as lists."""
    return {
        name: _import_path(value) if isinstance(value, type) else _with_lists(value)
        for name, value in given.items()
    }


def _with_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_lists(each) for name, each in value.items()}
    return [_with_lists(each) for each in value] if isinstance(value, tuple) else value


def _with_one_package_source(run: dict[str, Any], *, has_container: bool) -> dict[str, Any]:
    """Return settings in which a given source of packages replaces the settings file's sources."""
    if has_container:
        none = {"package_sync": False, "local_modules": False}
        return {"software": [], "software_lock": None, **none, **run}
    if run.get("package_sync"):
        return {"software": [], "software_lock": None, **run}
    if isinstance(run.get("software"), str):
        run = {"software_lock": None, **run}
    named = "software" in run or "software_lock" in run
    return {"package_sync": False, **run} if named else run


def _location_given(arguments: ClusterArguments) -> tuple[dict[str, Any], dict[str, Any]]:
    """Merge region, zone and ingress from arguments and ``backend_options``. Raises
    `InvalidInput`.
    """
    from terradask_stacks.backend_options import read_backend_options

    options = read_backend_options(arguments.backend_options)
    workspace, cluster = options.get("workspace", {}), options.get("cluster", {})
    for argument, value, option, settings in (
        ("region", arguments.region, "region_name", workspace),
        ("zone_name", arguments.zone_name, "zone_name", cluster),
    ):
        other = settings.get(argument)
        if None not in (value, other) and value != other:
            raise InvalidInput(
                f"`{argument}` and `backend_options` have different values.",
                given=f"{argument}={value!r}, backend_options={{{option!r}: {other!r}}}",
                allowed="one of them, or the same in both",
                advice=f"leave {option} out of backend_options",
            )
        if value is not None:
            settings[argument] = value
    return workspace, cluster


def _merge_alias(name: str, value: Any, other: str, other_value: Any) -> Any:
    """Return the value of an argument with an alias. Raises `InvalidInput`."""
    if None not in (value, other_value) and value != other_value:
        raise InvalidInput(
            f"`{other}` is an alias of `{name}`: their values can't differ.",
            given=f"{name}={value!r}, {other}={other_value!r}",
            allowed="one of them",
            advice=f"leave `{other}` out",
        )
    return value if value is not None else other_value


def _check_credentials(credentials: Any) -> None:
    """Check that credentials are ``"local"`` or None. Raises `InvalidInput`."""
    if credentials not in (None, "local"):
        # Don't show the value: it may be the credentials themselves.
        raise InvalidInput(
            "This value of `credentials` is not supported.",
            given=f"credentials, a {type(credentials).__name__}",
            allowed="'local', for your temporary credentials, or None, for the instance role",
            advice="select your profile with AWS_PROFILE, and pass credentials='local'",
        )


def _import_path(value: type) -> str:
    if value.__module__ == "__main__" or "<locals>" in value.__qualname__:
        raise InvalidInput(
            "Hosts can't import this class.",
            given=f"{value.__module__}.{value.__qualname__}",
            allowed="a class of a module that hosts have installed, such as distributed.Nanny",
            advice="put it into a package that `software` names",
        )
    package, name = value.__module__.partition(".")[0], value.__name__
    if getattr(sys.modules.get(package), name, None) is value:
        # The usual short path, as in settings: distributed.Nanny.
        return f"{package}.{name}"
    return f"{value.__module__}.{value.__qualname__}"


def parse_name(name: str | None) -> str:
    """Return the cluster's name, by default a generated one. Raises `InvalidInput`."""
    from terradask_stacks.settings import validate_cluster_name

    if name is None:
        return f"dask-{secrets.token_hex(4)}"
    if not isinstance(name, str):
        raise InvalidInput(
            "A cluster's name must be text.",
            given=name,
            allowed="such as 'etl'",
            advice="pass a string",
        )
    return validate_cluster_name(name)
