"""What a cluster object's methods that run commands take, checked and packed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from terradask._clusters.jobs.files import files_of_command, find_files, pack
from terradask._clusters.jobs.request import job_request
from terradask._clusters.lifetime import Duration, parse_duration
from terradask._clusters.private_envs import check_private_envs
from terradask_host.commands import SubmitJob

Method = TypeVar("Method", bound=Callable[..., Any])


class JobOptions(TypedDict, total=False):
    """What `prepare_job` takes by name."""

    files: Sequence[str | Path]
    directory: str | Path | None
    exclude: Sequence[str]
    environ: Mapping[str, str] | None
    retries: int
    timeout: Duration | None
    resources: Mapping[str, float] | None


def prepare_job(
    command: Sequence[str],
    inputs: Sequence[Any] | None = None,
    *,
    files: Sequence[str | Path] = (),
    directory: str | Path | None = None,
    exclude: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    retries: int = 0,
    timeout: Duration | None = None,
    resources: Mapping[str, float] | None = None,
) -> SubmitJob:
    """Check a job and pack its files, with those that the command names, without any call. Raises
    `InvalidInput`.
    """
    named = files_of_command(command, directory)
    return job_request(
        command,
        inputs,
        environ=check_private_envs(environ or {}),
        retries=retries,
        timeout_seconds=parse_duration("timeout", timeout) or None,
        resources=resources,
        packed=pack(find_files([*named, *files], directory, exclude)),
    )


def shows_options(method: Method) -> Method:
    """Give a method, to be shown, the signature with the options of `prepare_job`."""
    own = inspect.signature(method)
    options = inspect.signature(prepare_job).parameters.values()
    shown = [
        *(one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD),
        *(one for one in options if one.kind is one.KEYWORD_ONLY),
    ]
    method.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return method
