"""Container images' names, and registries: what is asked, with whose rights, what is believed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from terradask_host.registry import ImageReference, RegistryError, Repository

from ..container_registry import (
    MANIFEST,
    TOKEN,
    ContainerRegistry,
    digest_of,
    file,
    layer,
    password_header,
)

DIGEST = "sha256:" + "a" * 64
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
BOTH = {"amd64": [layer(file("a"))], "arm64": [layer(file("b"))]}


@pytest.fixture
def registry() -> Iterator[ContainerRegistry]:
    made = ContainerRegistry()
    with made.serving():
        yield made


def repository(registry: ContainerRegistry, name: str = "team/dask") -> Repository:
    return Repository(ImageReference.parse(f"{registry.address}/{name}:1"))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("dask", "docker.io/library/dask:latest"),
        ("daskdev/dask:2026.7.1", "docker.io/daskdev/dask:2026.7.1"),
        ("ghcr.io/dask/dask", "ghcr.io/dask/dask:latest"),
        ("localhost/x", "localhost/x:latest"),
        ("registry:5000/a/b/c:t", "registry:5000/a/b/c:t"),
        (f"quay.io/a/b@{DIGEST}", f"quay.io/a/b@{DIGEST}"),
        (f"quay.io/a/b:1@{DIGEST}", f"quay.io/a/b:1@{DIGEST}"),
    ],
)
def test_names_are_read_as_docker_reads_them(text: str, whole: str) -> None:
    found = ImageReference.parse(text)
    assert str(found) == whole
    assert ImageReference.parse(whole) == found


@pytest.mark.parametrize(
    "text",
    ["", "A/b", "a b", "a:", "a@sha256:12", "https://ghcr.io/a", "a//b", "../a", "a:t:u", "a/b\n"],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a reference of a container image"):
        ImageReference.parse(text)


@pytest.mark.parametrize(
    ("registry", "ecr"),
    [
        (ECR, ("123456789012", "eu-west-1")),
        (
            "123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
            ("123456789012", "us-gov-west-1"),
        ),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", ("123456789012", "cn-north-1")),
        ("public.ecr.aws", None),
        (f"{ECR}.example.org", None),
        (f"x{ECR}", None),
    ],
)
def test_registries_of_ecr_are_known_by_their_whole_name(
    registry: str, ecr: tuple[str, str] | None
) -> None:
    assert ImageReference.parse(f"{registry}/dask:1").ecr == ecr


def test_registries_are_asked_over_https_except_on_this_machine() -> None:
    urls = [
        ImageReference.parse(f"{name}/a/b").base_url
        for name in ("ghcr.io", "10.0.0.7:5000", "127.0.0.1:5000", "127.0.0.1.example.org")
    ]
    assert [url.partition(":")[0] for url in urls] == ["https", "https", "http", "https"]
    assert ImageReference.parse("dask").base_url == "https://registry-1.docker.io/v2/library/dask/"


def test_an_image_of_several_is_the_architectures(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", BOTH, environ={"A": "1"}, entry_point=["tini", "--"])
    there = repository(registry)
    assert there.manifest("1").digest == digest
    for architecture, made in (("x86_64", "amd64"), ("arm64", "arm64")):
        image = there.image(digest, architecture)
        assert [each.digest for each in image.layers] == [digest_of(BOTH[made][0])]
        assert (image.environ, image.entry_point) == ({"A": "1"}, ("tini", "--"))


def test_an_image_for_other_processors_is_refused(registry: ContainerRegistry) -> None:
    one = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    with pytest.raises(RegistryError, match="hosts' processors") as caught:
        repository(registry).image(one, "arm64")
    assert caught.value.allowed == "linux/arm64"
    both = registry.push("team/dask", "2", BOTH)
    index = json.loads(registry.manifests["team/dask", both][1])
    index["manifests"] = index["manifests"][1:]
    content = json.dumps(index).encode()
    registry.manifests["team/dask", digest_of(content)] = ("", content)
    with pytest.raises(RegistryError, match="buildx"):
        repository(registry).image(digest_of(content), "x86_64")


def test_another_image_behind_a_digest_is_refused(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", BOTH)
    planted = registry.push("team/dask", "2", {"amd64": [layer(file("evil"))]})
    registry.manifests["team/dask", digest] = registry.manifests["team/dask", planted]
    with pytest.raises(RegistryError, match="another image") as caught:
        repository(registry).manifest(digest)
    assert planted in str(caught.value.given)


def test_another_configuration_is_refused(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    manifest = json.loads(registry.manifests["team/dask", digest][1])
    registry.blobs[manifest["config"]["digest"]] = b'{"architecture": "amd64"}'
    with pytest.raises(RegistryError, match="configuration"):
        repository(registry).image(digest, "x86_64")


def test_a_token_is_had_where_the_registry_says(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    registry.authorization = f"Bearer {TOKEN}"
    registry.challenge = (
        f'Bearer realm="http://{registry.address}/token",service="here",'
        'scope="repository:team/dask:pull"'
    )
    there = repository(registry)
    assert there.manifest("1").digest == digest
    assert there.image(digest, "x86_64").layers
    tokens = [path for path, _ in registry.asked if path.startswith("/token")]
    assert tokens == ["/token?service=here&scope=repository%3Ateam%2Fdask%3Apull"]


@pytest.mark.parametrize(
    "challenge",
    [
        'Basic realm="x"',
        'Bearer realm="http://example.org/token"',
        "",
        'Bearer realm="file:///etc"',
    ],
)
def test_a_registry_that_wants_a_password_is_refused(
    registry: ContainerRegistry, challenge: str
) -> None:
    registry.authorization, registry.challenge = "Basic eDp5", challenge
    with pytest.raises(RegistryError, match="requires a password"):
        repository(registry).manifest("1")


def test_ecrs_password_goes_to_the_registry_and_not_to_where_archives_are(
    registry: ContainerRegistry,
) -> None:
    digest = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    store = ContainerRegistry(blobs=registry.blobs)
    registry.authorization, registry.challenge = password_header("secret"), 'Basic realm="ECR"'
    with store.serving("127.0.0.2") as address:
        registry.blobs_at = f"http://{address}"
        reference = ImageReference.parse(f"{registry.address}/team/dask:1")
        image = Repository(reference, login=lambda: ("AWS", "secret")).image(digest, "x86_64")
        assert image.layers
        assert {given for _, given in store.asked} == {None}


USER, PASSWORD = "robot", "a-password-that-is-planted"


def private(registry: ContainerRegistry, *, by_token: bool, password: str = PASSWORD) -> Repository:
    """Return a repository of a registry that lets one user in."""
    registry.users, registry.by_token = {USER: PASSWORD, "guest": PASSWORD}, by_token
    registry.barred = {"guest"}
    reference = ImageReference.parse(f"{registry.address}/team/dask:1")
    return Repository(reference, login=lambda: (USER, password))


by_both = pytest.mark.parametrize("by_token", [False, True], ids=["password", "token"])


@by_both
def test_who_logs_in_gets_the_image_and_where_archives_are_hears_of_nobody(
    registry: ContainerRegistry, by_token: bool
) -> None:
    digest = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    store = ContainerRegistry(blobs=registry.blobs)
    with store.serving("127.0.0.2") as address:
        registry.blobs_at = f"http://{address}"
        there = private(registry, by_token=by_token)
        image = there.image(there.manifest("1").digest, "x86_64")
        assert there.manifest("1").digest == digest
        with there.blob(image.layers[0].digest) as archive:
            assert digest_of(archive.read()) == image.layers[0].digest
    assert store.asked
    assert {given for _, given in store.asked} == {None}
    basic = [path for path, given in registry.asked if (given or "").startswith("Basic")]
    assert all(path.startswith("/token") for path in basic) is by_token
    if by_token:
        assert basic == ["/token?service=registry&scope=repository%3Ateam%2Fdask%3Apull"]


def test_a_token_that_expires_is_had_again(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    there = private(registry, by_token=True)
    there.manifest("1")
    registry.tokens = {}
    assert there.image(digest, "x86_64").layers
    assert len(registry.tokens) == 1


@by_both
def test_each_way_not_to_get_in_has_its_own_sentence(
    registry: ContainerRegistry, by_token: bool
) -> None:
    registry.push("team/dask", "1", BOTH)

    def refusal(of: Repository, name: str = "1") -> str:
        with pytest.raises(RegistryError) as caught:
            of.manifest(name)
        assert PASSWORD not in str(caught.value)
        return str(caught.value)

    wrong = refusal(private(registry, by_token=by_token, password=PASSWORD[::-1]))
    assert "refuses the username and the password" in wrong
    assert "HTTP status 401" in wrong
    assert "a token may have expired" in wrong
    right = private(registry, by_token=by_token)
    missing = refusal(right, "gone")
    assert "doesn't have this container image that its user can see" in missing
    assert "HTTP status 404" in missing
    guest = Repository(
        ImageReference.parse(f"{registry.address}/team/dask:1"), login=lambda: ("guest", PASSWORD)
    )
    assert "doesn't let this user pull the container image" in refusal(guest)
    nobody = refusal(repository(registry))
    assert "requires a password" in nobody or "or it is private" in nobody
    assert "name the secret with username and password in container_credentials" in nobody


def test_a_store_of_archives_that_asks_gets_no_password(registry: ContainerRegistry) -> None:
    digest = registry.push("team/dask", "1", {"amd64": BOTH["amd64"]})
    store = ContainerRegistry(users={"x": "y"}, by_token=True)
    with store.serving("127.0.0.2") as address:
        registry.blobs_at = f"http://{address}"
        with pytest.raises(RegistryError, match="store of archives refuses") as caught:
            private(registry, by_token=True).image(digest, "x86_64")
    assert f"HTTP status 401 of {address}" in str(caught.value)
    assert [path for path, _ in store.asked if path.startswith("/token")] == []


@pytest.mark.parametrize("realm", ["http://example.org/token", "file:///etc/passwd"])
def test_a_password_goes_to_no_other_place_without_tls(
    registry: ContainerRegistry, realm: str
) -> None:
    registry.authorization, registry.challenge = "Bearer x", f'Bearer realm="{realm}"'
    reference = ImageReference.parse(f"{registry.address}/team/dask:1")
    with pytest.raises(RegistryError, match="requires a password"):
        Repository(reference, login=lambda: (USER, PASSWORD)).manifest("1")
    assert {given for _, given in registry.asked} == {None}


@pytest.mark.parametrize(("content", "why"), [(b"<html>", "valid JSON"), (b"[1]", "a JSON object")])
def test_an_answer_that_is_no_manifest_is_refused(
    registry: ContainerRegistry, content: bytes, why: str
) -> None:
    registry.manifests["team/dask", "1"] = (MANIFEST, content)
    with pytest.raises(RegistryError, match=why):
        repository(registry).manifest("1")


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"layers": []},
        {"layers": [{"digest": "sha256:../../x", "mediaType": "", "size": 1}]},
        {"manifests": None},
        {"manifests": [1]},
        {"manifests": [{"platform": {"os": "linux", "architecture": "amd64"}}]},
        {
            "manifests": [
                {"platform": {"os": "linux", "architecture": "amd64"}, "digest": "../../blobs/x"}
            ]
        },
    ],
)
def test_a_manifest_without_what_an_image_needs_is_refused(
    registry: ContainerRegistry, content: dict[str, object]
) -> None:
    text = json.dumps(content).encode()
    registry.manifests["team/dask", digest_of(text)] = (MANIFEST, text)
    with pytest.raises(RegistryError, match="not a container image of Linux"):
        repository(registry).image(digest_of(text), "x86_64")


def test_a_missing_image_and_a_silent_registry_are_said(registry: ContainerRegistry) -> None:
    with pytest.raises(RegistryError, match="doesn't have this container image") as caught:
        repository(registry).manifest("gone")
    assert "HTTP status 404" in str(caught.value.given)
    silent = Repository(ImageReference.parse("127.0.0.1:9/a/b:1"))
    with pytest.raises(RegistryError, match="doesn't answer"):
        silent.manifest("1")


def test_a_manifest_without_end_is_not_read(registry: ContainerRegistry) -> None:
    registry.manifests["team/dask", "1"] = (MANIFEST, b" " * (4 * 2**20 + 2))
    with pytest.raises(RegistryError, match="too long"):
        repository(registry).manifest("1")
