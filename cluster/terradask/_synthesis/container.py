"""Resolve a cluster's container image to a digest, which is locked until a refresh."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.session import Aws
from terradask._common.progress import Message, Progress
from terradask.errors import SoftwareUnusable, TerradaskError
from terradask_host.registry import ImageReference, Login, RegistryError, Repository
from terradask_stacks.errors import SettingsError

if TYPE_CHECKING:
    from terradask_stacks.hardware.architecture import Architecture
    from terradask_stacks.lock import ClusterLock
    from terradask_stacks.settings import ClusterSettings, NetworkSettings

#: Variables that make Dask's images install packages as root, which containers here aren't.
_NEEDS_ROOT = ("EXTRA_APT_PACKAGES", "EXTRA_CONDA_PACKAGES")
_ENDPOINTS = ("ecr.api", "ecr.dkr")


def lock_container(
    cluster: ClusterSettings,
    architecture: Architecture,
    earlier: ClusterLock | None,
    aws: Aws,
    progress: Progress,
) -> str | None:
    """Return the cluster's image with its digest: the locked one for the same name, if any.

    With `container_credentials`, a caller who may not read them needs a digest in the image's name,
    which hosts check. Raises `SoftwareUnusable`.

    Permissions needed for an image of Amazon ECR: ``ecr:GetAuthorizationToken``,
    ``ecr:BatchGetImage``, ``ecr:GetDownloadUrlForLayer``; for one of another private registry,
    unless it is named by digest: ``secretsmanager:GetSecretValue`` on `container_credentials`.
    """
    if cluster.container is None:
        return None
    asked = _parse(cluster.container)
    if earlier is not None and earlier.container and earlier.architecture == architecture:
        known = _parse(earlier.container)
        if known.digest is not None and known == asked.at(asked.digest or known.digest):
            return earlier.container
    login: Callable[[], Login] | None = None
    if asked.ecr is not None:
        login = partial(_ecr_login, aws, *asked.ecr)
    elif cluster.container_credentials is not None:
        login = partial(_login, aws, cluster.container_credentials)
    try:
        repository = Repository(asked, login=login)
        digest = repository.manifest(asked.digest or asked.tag or "latest").digest
        repository.image(digest, architecture)
    except _LoginUnreadable as error:
        if asked.digest is not None:
            progress(Message(f"container: {asked}, which hosts check: {error.problem}"))
            return str(asked)
        raise _unusable(cluster.container, str(error.given), advice=error.advice) from error
    except RegistryError as error:
        why = f"{error.problem} ({error.given}; allowed: {error.allowed or 'an existing one'})"
        raise _unusable(cluster.container, why, advice=error.advice) from error
    found = str(asked.at(digest))
    progress(Message(f"container: {found}"))
    return found


def check_container(
    network: NetworkSettings, cluster: ClusterSettings, *, given_profiles: bool
) -> None:
    """Refuse an image that the network's hosts may not or can't pull, or that needs unsupported
    features.
    Raises `SettingsError`, `SoftwareUnusable`.
    """
    if cluster.container is None:
        return
    image = _parse(cluster.container)
    if image.ecr and cluster.container_credentials:
        raise SettingsError.of(
            where="cluster.container_credentials",
            problem="hosts pull images of Amazon ECR with their role",
            given=cluster.container_credentials,
            allowed="none, for an image of Amazon ECR",
            advice="leave it out",
        )
    private = not (network.public_workers and network.public_schedulers)
    if image.ecr and not given_profiles and image.name not in network.container_repositories:
        raise SettingsError.of(
            where="cluster.container",
            problem="hosts have no permission to pull images of this repository",
            given=image.name,
            allowed=", ".join(network.container_repositories) or "no repository yet",
            advice=f'set network.container_repositories = ["{image.name}"], then: '
            "terradask apply network",
        )
    if network.nat == "none" and network.vpc_id is None and private:
        missing = [each for each in _ENDPOINTS if each not in network.interface_endpoints]
        if not image.ecr or missing:
            raise SettingsError.of(
                where="cluster.container",
                problem="hosts without internet access can't reach the registry",
                given=image.registry,
                allowed="Amazon ECR in the hosts' region, with its interface endpoints",
                advice="copy the image there, and add ecr.api and ecr.dkr to "
                'network.interface_endpoints; or set network.nat = "single"',
            )
    elif root := [name for name in _NEEDS_ROOT if cluster.environ.get(name)]:
        raise SettingsError.of(
            where="cluster.environ",
            problem=f"{root[0]} installs packages as root, but containers don't run as root",
            given=cluster.environ[root[0]],
            allowed="EXTRA_PIP_PACKAGES",
            advice="install them in an image derived from Dask's",
        )


def check_no_gpus(cluster: ClusterSettings, lock: ClusterLock) -> None:
    """Refuse an image on hosts with GPUs, as it would lack the host's driver.

    Raises `SettingsError`.
    """
    if cluster.container is None or not lock.gpus:
        return
    raise SettingsError.of(
        where="cluster.container",
        problem="containers can't use the host's GPU driver",
        given=f"{cluster.container} on {', '.join(sorted(lock.gpus))}",
        allowed="instance types without GPUs; or package_sync or software, with GPUs",
        advice="leave container out, and install the packages locally or by software",
    )


def _parse(text: str) -> ImageReference:
    try:
        return ImageReference.parse(text)
    except ValueError as error:
        raise _unusable(text, str(error)) from error


class _LoginUnreadable(RegistryError):
    """The caller can't read the registry's username and password."""


def _login(aws: Aws, arn: str) -> Login:
    """Return username and password for a private registry; errors don't show them."""
    secrets = _in_region(aws, arn.split(":")[3]).client("secretsmanager")
    try:
        text = secrets.get_secret_value(SecretId=arn).get("SecretString")
    except TerradaskError as error:
        raise _LoginUnreadable(
            "you can't read container_credentials, so the registry can't be asked",
            given=f"its tag has no known digest, as you can't read container_credentials: {error}",
            advice="name the image by digest, NAME@sha256:… (docker buildx imagetools inspect NAME "
            f"prints it), or get the right secretsmanager:GetSecretValue on {arn}",
        ) from error
    found: Any = None
    # Its error would have the text.
    with contextlib.suppress(TypeError, ValueError):
        found = json.loads(text)
    if not isinstance(found, dict) or not {"username", "password"} <= found.keys():
        raise RegistryError(
            "The secret of container_credentials has no username and password.",
            given=arn,
            allowed='JSON: {"username": "…", "password": "…"}',
            advice="correct it: aws secretsmanager put-secret-value",
        )
    return str(found["username"]), str(found["password"])


def _in_region(aws: Aws, region: str) -> Aws:
    return aws if region == aws.region else aws.in_region(region)


def _ecr_login(aws: Aws, account: str, region: str) -> Login:
    """Return the caller's username and password for a registry of Amazon ECR."""
    try:
        answer = _in_region(aws, region).client("ecr").get_authorization_token()
    except TerradaskError as error:
        raise RegistryError(
            "Amazon ECR issues no password.",
            given=f"images of account {account} in {region}: {error}",
            advice="the caller needs ecr:GetAuthorizationToken",
        ) from error
    token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"])
    name, _, password = token.decode().partition(":")
    return name, password


def _unusable(container: str, why: str, *, advice: str | None = None) -> SoftwareUnusable:
    return SoftwareUnusable(
        "Hosts can't run the container image.",
        given=f"{container}: {why}",
        allowed=(
            "a Linux image for the hosts' processors, in a registry that is public, Amazon ECR, or "
            "open to container_credentials"
        ),
        advice=advice or "correct the name or the tag, or build the image for these hosts",
    )
