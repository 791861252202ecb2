"""Resolve a cluster's container image to a digest, which is locked until a refresh."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING

from terradask._aws.session import Aws
from terradask._common.progress import Message, Progress
from terradask.errors import SoftwareUnusable, TerradaskError
from terradask_host.registry import ImageReference, RegistryError, Repository
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

    Raises `SoftwareUnusable`.

    Permissions needed for an image of Amazon ECR: ``ecr:GetAuthorizationToken``,
    ``ecr:BatchGetImage``, ``ecr:GetDownloadUrlForLayer``.
    """
    if cluster.container is None:
        return None
    asked = _parse(cluster.container)
    if earlier is not None and earlier.container and earlier.architecture == architecture:
        known = _parse(earlier.container)
        if known.digest is not None and known == asked.at(asked.digest or known.digest):
            return earlier.container
    password = None if asked.ecr is None else partial(_password, aws, *asked.ecr)
    try:
        repository = Repository(asked, password=password)
        digest = repository.manifest(asked.digest or asked.tag or "latest").digest
        repository.image(digest, architecture)
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


def _password(aws: Aws, account: str, region: str) -> str:
    """Return the caller's password for a registry of Amazon ECR."""
    there = aws if region == aws.region else Aws(region, profile=aws.profile)
    try:
        answer = there.client("ecr").get_authorization_token()
    except TerradaskError as error:
        raise RegistryError(
            "Amazon ECR issues no password.",
            given=f"images of account {account} in {region}: {error}",
            advice="the caller needs ecr:GetAuthorizationToken",
        ) from error
    token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"])
    return token.decode().partition(":")[2]


def _unusable(container: str, why: str, *, advice: str | None = None) -> SoftwareUnusable:
    return SoftwareUnusable(
        "Hosts can't run the container image.",
        given=f"{container}: {why}",
        allowed=(
            "a Linux image for the hosts' processors, in a public registry or a repository "
            "of Amazon ECR"
        ),
        advice=advice or "correct the name or the tag, or build the image for these hosts",
    )
