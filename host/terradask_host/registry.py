"""Read container images from registries, by the OCI distribution specification:
https://github.com/opencontainers/distribution-spec/blob/main/spec.md

Everything is requested by digest, or by a tag whose digest is kept, and checked against it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Self, cast
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, Request, build_opener

from terradask_host.errors import HostError

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
#: The specification's lowest limit of registries; larger manifests aren't read.
_MOST_MANIFEST_BYTES = 4 * 2**20
_TIMEOUT_SECONDS = 60.0
#: Docker's registry has another host than its name.
_DOCKER, _DOCKER_HOST = "docker.io", "registry-1.docker.io"
#: Images use Go's names of processors.
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_REGISTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?")
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.[0-9]{1,3}){3})(?::[0-9]+)?")
#: AWS (documented): ECR's registries are <account>.dkr.ecr.<region>.amazonaws.com, or dkr-ecr at
#: on.aws for dual stack. https://docs.aws.amazon.com/general/latest/gr/ecr.html
_ECR = re.compile(
    r"(?P<account>[0-9]{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)"
    r"\.(?:amazonaws\.com(?:\.cn)?|on\.(?:aws|amazonwebservices\.com\.cn))"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOG_IN = (
    "for a private image, name the secret with username and password in container_credentials, or "
    "copy the image to Amazon ECR, from which hosts pull by their role"
)


#: A username and its password, or token.
Login = tuple[str, str]


class RegistryError(HostError):
    """A registry doesn't have an image, refuses it, or doesn't answer."""


@dataclass(frozen=True)
class ImageReference:
    """An image's name: its registry, its repository there, and its tag, its digest or both.

    A digest identifies the image; a tag beside it is informative.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a reference as Docker does: by default Docker's registry and the tag ``latest``.

        Raises `ValueError` if it isn't a reference.
        """
        # A first part without a dot or a port belongs to the repository.
        first = text.partition("/")[0]
        has_registry = "/" in text and (bool(set(".:") & set(first)) or first == "localhost")
        registry, rest = text.split("/", 1) if has_registry else (None, text)
        found = _REFERENCE.fullmatch(rest)
        if found is None or len(text) > 512 or not _REGISTRY.fullmatch(registry or _DOCKER):
            raise ValueError(f"not a reference of a container image: {text[:200]!r}")
        repository = found["repository"]
        if registry is None:
            registry = _DOCKER
            if "/" not in repository:
                repository = f"library/{repository}"
        digest = found["digest"]
        tag = found["tag"] or (None if digest else "latest")
        return cls(registry, repository, tag, digest)

    def __str__(self) -> str:
        """Return the reference in `parse`'s form."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def ecr(self) -> tuple[str, str] | None:
        """Account and region, if the registry is one of Amazon ECR's."""
        found = _ECR.fullmatch(self.registry)
        return None if found is None else (found["account"], found["region"])

    @property
    def base_url(self) -> str:
        """The repository's URL: over HTTPS, except on this machine."""
        scheme = "http" if _LOOPBACK.fullmatch(self.registry) else "https"
        host = _DOCKER_HOST if self.registry == _DOCKER else self.registry
        return f"{scheme}://{host}/v2/{self.repository}/"

    def at(self, digest: str) -> Self:
        """Return the reference with a digest."""
        return replace(self, digest=digest)


@dataclass(frozen=True)
class Layer:
    """A part of an image's files, as an archive."""

    digest: str
    size: int


@dataclass(frozen=True)
class Image:
    """An image for one architecture: its files' archives, in order, and its configuration."""

    layers: tuple[Layer, ...]
    entry_point: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """A registry's description of an image, or of one image for each architecture."""

    digest: str
    content: Mapping[str, Any]

    def for_architecture(self, architecture: str) -> str | None:
        """Return the digest of the image for an architecture, ``x86_64`` or ``arm64``.

        None if this is an image itself. Raises `RegistryError` if there is none for it.
        """
        if "manifests" not in self.content:
            return None
        offered = [
            (str(platform.get("os")), str(platform.get("architecture")), str(one["digest"]))
            for one in self.content["manifests"]
            if isinstance(platform := one.get("platform"), Mapping)
        ]
        wanted = ("linux", _ARCHITECTURES[architecture])
        for *platform, digest in offered:
            if tuple(platform) == wanted:
                return digest
        raise RegistryError(
            "The container image isn't built for the hosts' processors.",
            given=", ".join(sorted({f"{system}/{kind}" for system, kind, _ in offered})) or None,
            allowed="/".join(wanted),
            advice="build it for them too (docker buildx build --platform), or choose other hosts",
        )


class Repository:
    """One repository of a registry.

    Parameters
    ----------
    reference
        An image of it.
    login
        Returns username and password, if the registry asks for them.
    context
        TLS context with the trusted certificates. Default: this system's.
    """

    def __init__(
        self,
        reference: ImageReference,
        *,
        login: Callable[[], Login] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._reference, self._login = reference, login
        self._opener: OpenerDirector = build_opener(
            *([HTTPSHandler(context=context)] if context else [])
        )
        self._authorization: str | None = None

    def manifest(self, name: str) -> Manifest:
        """Return the manifest of a tag or a digest. Raises `RegistryError`."""
        accept = ", ".join((*_INDEXES, *_MANIFESTS))
        with self._open(f"manifests/{name}", {"Accept": accept}) as answer:
            content = self._whole(answer)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if _DIGEST.fullmatch(name) and digest != name:
            raise self._error("The registry answers with another image.", given=digest)
        return Manifest(digest, _parsed(content, self._error))

    def image(self, digest: str, architecture: str) -> Image:
        """Return the image for an architecture, directly or from the digest's list.

        Raises `RegistryError`.
        """
        try:
            manifest = self.manifest(digest)
            chosen = manifest.for_architecture(architecture)
            if chosen is not None:
                manifest = self.manifest(_checked(chosen))
            layers = tuple(
                Layer(_checked(one["digest"]), int(one["size"]))
                for one in manifest.content["layers"]
            )
            config = self._config(_checked(manifest.content["config"]["digest"]))
            found, wanted = config["architecture"], _ARCHITECTURES[architecture]
            run = config.get("config") or {}
            entry_point = tuple(map(str, run.get("Entrypoint") or ()))
            pairs = [str(one).partition("=") for one in run.get("Env") or ()]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._error(
                "The registry's answer is not a container image of Linux.",
                given=f"{type(error).__name__}: {error}",
            ) from error
        if found != wanted:
            raise self._error(
                "The container image isn't built for the hosts' processors.",
                given=f"linux/{found}",
                allowed=f"linux/{wanted}",
            )
        return Image(layers, entry_point, {name: value for name, _, value in pairs})

    @contextlib.contextmanager
    def blob(self, digest: str) -> Iterator[BinaryIO]:
        """Open an archive; the reader must check its bytes. Raises `RegistryError`."""
        with self._open(f"blobs/{digest}", {}) as answer:
            yield answer

    def _config(self, digest: str) -> Mapping[str, Any]:
        with self.blob(digest) as answer:
            content = self._whole(answer)
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise self._error("The image's configuration doesn't match its manifest's digest.")
        return _parsed(content, self._error)

    def _whole(self, answer: BinaryIO) -> bytes:
        try:
            content = answer.read(_MOST_MANIFEST_BYTES + 1)
        except (OSError, ValueError) as error:
            raise self._error("The registry's answer broke off.", given=error) from error
        if len(content) > _MOST_MANIFEST_BYTES:
            raise self._error("The registry's answer is too long for a manifest.")
        return content

    def _open(self, path: str, headers: Mapping[str, str]) -> BinaryIO:
        """Send a request, with authorization after the registry's challenge."""
        url = urljoin(self._reference.base_url, path)
        for attempt in range(2):
            request = Request(url, headers=dict(headers))  # noqa: S310 - `base_url` is HTTP's
            if self._authorization:
                # An archive's other host must not get the registry's authorization.
                request.add_unredirected_header("Authorization", self._authorization)
            try:
                return cast(BinaryIO, self._opener.open(request, timeout=_TIMEOUT_SECONDS))
            except HTTPError as error:
                with error:
                    # Where an archive is stored asks for nothing that is the registry's.
                    own = urlsplit(error.url).netloc == urlsplit(url).netloc
                    if error.code == 401 and attempt == 0 and own:
                        self._authorization = self._authorize(error.headers["WWW-Authenticate"])
                        continue
                    raise self._refused(error) if own else self._lost(error) from error
            except (OSError, ValueError) as error:
                raise self._error(
                    "The registry of the container image doesn't answer.",
                    given=f"{getattr(error, 'reason', error)}",
                    advice="check the name, and that this machine reaches it (proxy, routes)",
                ) from error
        raise AssertionError("the second attempt returns or raises")

    def _authorize(self, challenge: str | None) -> str:
        """Return the header for a challenge:
        https://distribution.github.io/distribution/spec/auth/token/
        """
        kind, _, rest = (challenge or "").partition(" ")
        facts = dict(re.findall(r'([a-z]+)="([^"]*)"', rest))
        realm = facts.pop("realm", "")
        basic = None
        if self._login is not None:
            basic = "Basic " + base64.b64encode(":".join(self._login()).encode()).decode()
            if kind.lower() != "bearer":
                return basic
        if kind.lower() != "bearer" or not _is_safe(realm, self._reference.base_url):
            raise self._error(
                "The registry requires a password for this container image.",
                advice=_LOG_IN,
            )
        wanted = {name: facts[name] for name in ("service", "scope") if name in facts}
        request = Request(f"{realm}{'&' if urlsplit(realm).query else '?'}{urlencode(wanted)}")  # noqa: S310 - `_is_safe`
        if basic is not None:
            request.add_unredirected_header("Authorization", basic)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                found = _parsed(self._whole(answer), self._error)
        except HTTPError as error:
            with error:
                raise self._refused(error) from error
        except OSError as error:
            raise self._error("The registry returns no token.", given=error) from error
        return f"Bearer {found.get('token') or found.get('access_token')}"

    def _refused(self, error: HTTPError) -> RegistryError:
        status = f"HTTP status {error.code}"
        if self._login is not None and error.code == 401:
            return self._error(
                "The registry refuses the username and the password for this container image.",
                given=status,
                advice="check both where they are kept; a token may have expired",
            )
        if self._login is not None and error.code == 403:
            return self._error(
                "The registry doesn't let this user pull the container image.",
                given=status,
                advice="give the user the right to pull this repository; on GitHub, a token with "
                "read:packages",
            )
        if error.code in (401, 403, 404):
            seen = "" if self._login is None else " that its user can see"
            return self._error(
                f"The registry doesn't have this container image{seen}"
                + ("." if seen else ", or it is private."),
                given=status,
                advice=f"check name and tag{'' if seen else f'; {_LOG_IN}'}",
            )
        busy = "it limits the rate of requests; copy the image to Amazon ECR"
        return self._error(
            "The registry refuses the container image.",
            given=status,
            advice=busy if error.code == 429 else "try again later",
        )

    def _lost(self, error: HTTPError) -> RegistryError:
        return self._error(
            "The registry's store of archives refuses one of the container image.",
            given=f"HTTP status {error.code} of {urlsplit(error.url).netloc}",
            advice="try again later",
        )

    def _error(
        self,
        problem: str,
        *,
        given: object = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> RegistryError:
        shown = str(self._reference) if given is None else f"{self._reference}: {given}"
        return RegistryError(problem, given=shown, allowed=allowed, advice=advice)


def _checked(digest: object) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a SHA-256: {str(digest)[:100]!r}")
    return digest


def _is_safe(realm: str, base_url: str) -> bool:
    """Return whether tokens may be requested there: only with TLS, except on this machine."""
    asked, own = urlsplit(realm), urlsplit(base_url)
    return asked.scheme == "https" or (
        asked.scheme == own.scheme == "http" and _LOOPBACK.fullmatch(asked.netloc) is not None
    )


def _parsed(content: bytes, error: Callable[..., RegistryError]) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as cause:
        raise error(
            "The registry's answer isn't valid JSON.", given=type(cause).__name__
        ) from cause
    if not isinstance(document, dict):
        raise error("The registry's answer is not a JSON object.", given=type(document).__name__)
    return document
