"""A cluster's container image: its digest is found once and locked; what hosts can't have is
refused before anything is made.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._aws.session import Aws
from terradask._common.progress import Message
from terradask._dask.arguments import ClusterArguments
from terradask._dask.request import read_request
from terradask._software.package_sync import versions_in_image
from terradask._software.sync import PackageSync
from terradask._synthesis import container as module
from terradask._synthesis.container import check_container, check_no_gpus, lock_container
from terradask.errors import AccessDenied, SettingsError, SoftwareUnusable
from terradask_host.registry import RegistryError
from terradask_modules.image_rights import repository_arn
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings, NetworkSettings

from ..container_registry import ContainerRegistry, file, layer, password_header

BOTH = {"amd64": [layer(file("a"))], "arm64": [layer(file("b"))]}
NO_AWS = cast(Aws, None)
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
ENDPOINTS = ["secretsmanager", "autoscaling", "ec2", "logs", "sts", "ecr.api", "ecr.dkr"]


@pytest.fixture
def registry() -> Iterator[ContainerRegistry]:
    made = ContainerRegistry()
    with made.serving():
        yield made


def cluster(image: str, **settings: Any) -> ClusterSettings:
    return ClusterSettings(container=image, **settings)


def locked(container: str | None = None, **facts: Any) -> ClusterLock:
    types = {"scheduler_instance_types": ["m6i.large"], "worker_instance_types": ["m6i.large"]}
    given = {"account": "123456789012", "zone": "us-east-1a", **types, **facts}
    return ClusterLock(container=container, **given)


def found(image: str, earlier: ClusterLock | None = None, log: list[str] | None = None) -> str:
    def note(event: object) -> None:
        if log is not None and isinstance(event, Message):
            log.append(event.text)

    lock = lock_container(cluster(image), "x86_64", earlier, NO_AWS, note)
    assert lock is not None
    return lock


def test_a_tags_digest_is_locked_until_a_refresh(registry: ContainerRegistry) -> None:
    first = registry.push("team/dask", "1", BOTH)
    image, log = f"{registry.address}/team/dask:1", list[str]()
    lock = found(image, log=log)
    assert lock == f"{image}@{first}"
    assert log == [f"container: {image}@{first}"]

    second = registry.push("team/dask", "1", {"amd64": [layer(file("new"))]})
    asked = len(registry.asked)
    assert found(image, locked(lock)) == lock
    assert len(registry.asked) == asked
    assert found(image, None) == f"{image}@{second}"


def test_another_name_or_architecture_is_looked_up_again(registry: ContainerRegistry) -> None:
    registry.push("team/dask", "1", BOTH)
    other = registry.push("team/dask", "2", {"amd64": [layer(file("2"))]})
    name = f"{registry.address}/team/dask"
    lock = found(f"{name}:1")
    assert found(f"{name}:2", locked(lock)) == f"{name}:2@{other}"
    assert found(f"{name}@{other}", locked(lock)) == f"{name}@{other}"
    with pytest.raises(SoftwareUnusable, match="linux/arm64"):
        lock_container(cluster(f"{name}:2"), "arm64", locked(f"{name}:2@{other}"), NO_AWS, print)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("{}/team/dask:gone", "HTTP status 404"),
        ("Team/dask", "not a reference of a container image"),
    ],
)
def test_an_image_that_is_not_there_is_said(
    registry: ContainerRegistry, image: str, why: str
) -> None:
    with pytest.raises(SoftwareUnusable, match=why) as caught:
        found(image.format(registry.address))
    assert str(caught.value.given).startswith(f"{image.format(registry.address)}: ")


LOGIN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:registry-AbCdEf"
PASSWORD = "a-password-that-is-planted"


def of_secret(text: str | None) -> Any:
    """Return an AWS that has this secret, or refuses it."""

    def get_secret_value(**asked: str) -> dict[str, str]:
        assert asked == {"SecretId": LOGIN}
        if text is None:
            raise AccessDenied("secretsmanager:GetSecretValue", "no")
        return {"SecretString": text}

    client = SimpleNamespace(get_secret_value=get_secret_value)
    return SimpleNamespace(region="eu-west-1", client=lambda name: client)


@pytest.mark.parametrize("by_token", [False, True])
def test_a_private_registrys_tag_is_resolved_with_the_secret(
    registry: ContainerRegistry, by_token: bool
) -> None:
    digest = registry.push("team/dask", "1", BOTH)
    registry.users, registry.by_token = {"robot": PASSWORD}, by_token
    image = f"{registry.address}/team/dask:1"
    settings = cluster(image, container_credentials=LOGIN)
    secret = json.dumps({"username": "robot", "password": PASSWORD})
    lock = lock_container(settings, "x86_64", None, of_secret(secret), print)
    assert lock == f"{image}@{digest}"
    for text, told in (
        (secret.replace("robot", "other"), "refuses the username and the password"),
        (json.dumps({"user": "robot", "password": PASSWORD}), "has no username and password"),
        (f'{{"username": "robot", "password": "{PASSWORD}', "has no username and password"),
    ):
        with pytest.raises(SoftwareUnusable, match=told) as caught:
            lock_container(settings, "x86_64", None, of_secret(text), print)
        chain, error = "", cast(BaseException | None, caught.value)
        while error is not None:
            chain, error = f"{chain}{error!r}{error}", error.__cause__ or error.__context__
        assert PASSWORD not in chain


def test_who_may_not_read_the_secret_names_a_digest(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", BOTH)
    registry.users = {"robot": PASSWORD}
    name, log = f"{registry.address}/team/dask", list[str]()
    tagged = cluster(f"{name}:1", container_credentials=LOGIN)
    with pytest.raises(SoftwareUnusable, match="as you can't read container_credentials") as caught:
        lock_container(tagged, "x86_64", None, of_secret(None), print)
    assert "name the image by digest" in str(caught.value.advice)
    assert f"secretsmanager:GetSecretValue on {LOGIN}" in str(caught.value.advice)
    by_digest = cluster(f"{name}@{digest}", container_credentials=LOGIN)

    def note(event: object) -> None:
        assert isinstance(event, Message)
        log.append(event.text)

    lock = lock_container(by_digest, "x86_64", None, of_secret(None), note)
    assert lock == f"{name}@{digest}"
    assert "which hosts check" in log[0]
    # What somebody else has resolved is locked.
    known = locked(f"{name}:1@{digest}")
    assert lock_container(tagged, "x86_64", known, of_secret(None), print) == known.container


def test_images_of_ecr_need_no_other_password() -> None:
    settings = cluster(f"{ECR}/dask:1", container_credentials=LOGIN)
    network = NetworkSettings(container_repositories=[f"{ECR}/dask"])
    with pytest.raises(SettingsError, match="hosts pull images of Amazon ECR with their role"):
        check_container(network, settings, given_profiles=False)


def test_a_password_of_ecr_is_the_callers(
    registry: ContainerRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = registry.push("dask", "1", BOTH)
    registry.authorization, registry.challenge = password_header("from AWS"), 'Basic realm="ECR"'
    token = base64.b64encode(b"AWS:from AWS").decode()
    ecr = SimpleNamespace(
        get_authorization_token=lambda: {"authorizationData": [{"authorizationToken": token}]}
    )
    asked: list[str] = []
    aws: Any = SimpleNamespace(region="eu-west-1", client=lambda name: asked.append(name) or ecr)
    # Only its address differs: ECR's certificate can't be had here.
    address = f"http://{registry.address}/v2/dask/"
    monkeypatch.setattr(module.ImageReference, "base_url", property(lambda _: address))
    lock = lock_container(cluster(f"{ECR}/dask:1"), "x86_64", None, aws, lambda _: None)
    assert lock == f"{ECR}/dask:1@{digest}"
    assert asked == ["ecr"]

    def refused() -> None:
        raise AccessDenied("ecr:GetAuthorizationToken", "no")

    ecr.get_authorization_token = refused
    with pytest.raises(SoftwareUnusable, match="issues no password") as caught:
        lock_container(cluster(f"{ECR}/dask:1"), "x86_64", None, aws, lambda _: None)
    assert isinstance(caught.value.__cause__, RegistryError)
    assert "ecr:GetAuthorizationToken" in str(caught.value.advice)


@pytest.mark.parametrize(
    ("image", "network", "settings", "problem"),
    [
        (f"{ECR}/dask:1", {}, {}, "no permission to pull"),
        (
            f"{ECR}/dask:1",
            {"container_repositories": [f"{ECR}/other"]},
            {},
            "no permission to pull",
        ),
        ("ghcr.io/dask/dask:1", {"nat": "none"}, {}, "can't reach the registry"),
        (
            f"{ECR}/dask:1",
            {
                "container_repositories": [f"{ECR}/dask"],
                "nat": "none",
                "interface_endpoints": ENDPOINTS[:-1],
            },
            {},
            "can't reach the registry",
        ),
        ("dask:1", {}, {"environ": {"EXTRA_APT_PACKAGES": "vim"}}, "installs packages as root"),
    ],
)
def test_what_hosts_can_not_have_is_refused(
    image: str, network: dict[str, Any], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        check_container(
            NetworkSettings(**network), cluster(image, **settings), given_profiles=False
        )


@pytest.mark.parametrize(
    ("image", "network", "settings", "given"),
    [
        ("ghcr.io/dask/dask:1", {}, {"environ": {"EXTRA_PIP_PACKAGES": "s3fs"}}, False),
        (f"{ECR}/dask:1", {"container_repositories": [f"{ECR}/dask"]}, {}, False),
        # Given roles are their owner's.
        (f"{ECR}/dask:1", {}, {}, True),
        (
            f"{ECR}/dask:1",
            {
                "container_repositories": [f"{ECR}/dask"],
                "nat": "none",
                "interface_endpoints": ENDPOINTS,
            },
            {},
            False,
        ),
        ("ghcr.io/dask/dask:1", {"nat": "none", "public_workers": True}, {}, False),
    ],
)
def test_what_hosts_can_have_is_not(
    image: str, network: dict[str, Any], settings: dict[str, Any], given: bool
) -> None:
    check_container(NetworkSettings(**network), cluster(image, **settings), given_profiles=given)


def test_gpus_and_an_image_exclude_each_other() -> None:
    check_no_gpus(cluster("dask:1"), locked())
    check_no_gpus(ClusterSettings(), locked(gpus={"g4dn.xlarge": 1}))
    with pytest.raises(SettingsError, match="the host's GPU driver"):
        check_no_gpus(cluster("dask:1"), locked(gpus={"g4dn.xlarge": 1}))


def test_an_image_takes_the_place_of_packages() -> None:
    asked = read_request(ClusterArguments("etl", container="dask:1"))
    assert asked.structure["container"] == "dask:1"
    assert asked.given["software"] == []
    assert asked.given["package_sync"] is False
    settings = ClusterSettings(container="dask:1")
    assert not PackageSync.of(settings)
    assert set(versions_in_image().packages) == {"dask", "distributed"}


@pytest.mark.parametrize(
    ("uri", "arn"),
    [
        (f"{ECR}/team/dask", "arn:aws:ecr:eu-west-1:123456789012:repository/team/dask"),
        (
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/dask",
            "arn:aws-cn:ecr:cn-north-1:123456789012:repository/dask",
        ),
    ],
)
def test_a_repository_has_an_arn(uri: str, arn: str) -> None:
    assert repository_arn(uri) == arn


@pytest.mark.parametrize("uri", ["dask", f"{ECR}/dask:1", f"{ECR}/*", "public.ecr.aws/x/dask", ECR])
def test_what_is_no_repository_of_ecr_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="repository of Amazon ECR"):
        NetworkSettings(container_repositories=[uri])


@pytest.mark.parametrize(
    "other",
    [
        {"package_sync": True},
        {"software": ["pandas"]},
        {"software_lock": "uv.lock"},
        {"local_modules": True},
    ],
)
def test_an_image_and_packages_exclude_each_other(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="an image has all packages"):
        ClusterSettings(container="dask:1", **other)


@pytest.mark.parametrize("image", ["", " dask", "dask:1\n", "-v", "x" * 513])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="container image"):
        ClusterSettings(container=image)
