"""Fetches the container image by digest, checks it, and unpacks it once per host.

Permission needed for an image of Amazon ECR: ``ecr:GetAuthorizationToken``,
``ecr:BatchGetImage`` and ``ecr:GetDownloadUrlForLayer``.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import platform
import shutil
import tarfile
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from terradask_host.agent.aws import Aws, describe_error, is_aws_error
from terradask_host.agent.container.layers import RootFolder
from terradask_host.agent.container.runtime import Container
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, EnvironmentFailed
from terradask_host.registry import Image, ImageReference, Layer, Login, RegistryError, Repository

T = TypeVar("T")

TRIES = 3
FIRST_PAUSE_SECONDS = 2.0
#: Layers fetched at a time, while an earlier one is unpacked.
_AT_ONCE = 3
_CHUNK_BYTES = 2**20
#: The kinds of artifact that a registry holds apart from images, such as charts.
_NO_ARCHIVE = (tarfile.TarError, zlib.error)
_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Mount points of the host's files.
MOUNTED_FOLDERS = ("proc", "sys", "dev", "run", "tmp", "opt/terradask", "var/lib/terradask")
MOUNTED_FILES = ("etc/resolv.conf", "etc/hosts")


def pull_container(
    text: str,
    paths: Paths,
    aws: Aws,
    *,
    events: EventQueue,
    log: Callable[[str], None],
    deadline_seconds: float,
    login: Callable[[], Login] | None = None,
) -> Container:
    """Fetch and unpack a run's image, and return its container. `login` returns the username and
    the password for a private registry other than Amazon ECR.

    Raises `ConfigInvalid` when `text` names no image by digest, `EnvironmentFailed` when the image
    can't be fetched or unpacked, `StopRequested`.
    """
    try:
        reference = ImageReference.parse(text)
    except ValueError as error:
        raise ConfigInvalid("run.json names no container image.", given=text) from error
    if reference.ecr is not None:
        account, region = reference.ecr
        login = partial(_ecr_login, aws, account, region)
    pull = ImagePull(
        reference,
        "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64",
        paths.container,
        repository=Repository(reference, login=login),
        events=events,
        log=log,
        deadline_seconds=deadline_seconds,
    )
    return Container(pull.run(), paths, log)


def _ecr_login(aws: Aws, account: str, region: str) -> Login:
    """Return the username and the password for an account's images.

    AWS (documented): ECR's authorization token is valid for 12 hours.
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html
    """
    try:
        answer = aws.client("ecr", region).get_authorization_token()
        token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"])
    except Exception as error:
        if not is_aws_error(error):
            raise
        raise RegistryError(
            "Amazon ECR gives this host's role no password.",
            given=f"images of account {account} in {region}: {describe_error(error)}",
            advice="name the repository in network.container_repositories: terradask apply network",
        ) from error
    name, _, password = token.decode().partition(":")
    return name, password


@dataclass
class ImagePull:
    """Fetches an image and unpacks it.

    Parameters
    ----------
    reference
        The image, with its digest.
    architecture
        ``x86_64`` or ``arm64``.
    folder
        Destination; the image's files are in its ``root``.
    events
        A stop request among them ends the pull.
    deadline_seconds
        Limit for the whole pull.
    """

    reference: ImageReference
    architecture: str
    folder: Path
    _: KW_ONLY
    repository: Repository
    events: EventQueue
    log: Callable[[str], None]
    deadline_seconds: float

    @property
    def root(self) -> Path:
        """The image's files."""
        return self.folder / "root"

    def run(self) -> Image:
        """Fetch and unpack the image, unless it is already unpacked.

        Raises `EnvironmentFailed`, with the registry's answer, when that fails; `StopRequested`.
        """
        image = self._unpacked_image()
        if image is not None:
            self.log(f"container image {self.reference} is already unpacked")
            return image
        shutil.rmtree(self.folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        began = time.monotonic()
        given_up = threading.Event()
        pool = ThreadPoolExecutor(1 + _AT_ONCE, thread_name_prefix="container-image")
        try:
            image = self._wait(pool.submit(self._fetch_image), began)
            size = sum(layer.size for layer in image.layers)
            self.log(f"fetching {self.reference}: {len(image.layers)} layers, {size} bytes")
            self._wait(pool.submit(self._fetch_layers, image, given_up), began)
        except (RegistryError, OSError, ValueError, EOFError, *_NO_ARCHIVE) as error:
            raise EnvironmentFailed(
                f"The container image can't be fetched: {error}", given=str(self.reference)
            ) from error
        finally:
            given_up.set()
            pool.shutdown(wait=True, cancel_futures=True)
        (self.folder / "image.json").write_text(
            json.dumps(
                {
                    "reference": str(self.reference),
                    "entry_point": image.entry_point,
                    "environ": dict(image.environ),
                }
            )
        )
        self.log(f"unpacked {self.reference} in {time.monotonic() - began:.1f} s")
        return image

    def _unpacked_image(self) -> Image | None:
        try:
            known = json.loads((self.folder / "image.json").read_text())
        except (OSError, ValueError):
            return None
        if known["reference"] != str(self.reference):
            return None
        return Image((), tuple(known["entry_point"]), known["environ"])

    def _wait(self, work: Future[T], began: float) -> T:
        while not work.done():
            if time.monotonic() - began > self.deadline_seconds:
                raise EnvironmentFailed(
                    f"Fetching the container image took over {self.deadline_seconds:.0f} s.",
                    given=str(self.reference),
                    advice="Use a smaller image, or one in the hosts' region (Amazon ECR).",
                )
            self.events.pause(0.1)
        return work.result()

    def _fetch_image(self) -> Image:
        digest = self.reference.digest
        if digest is None:
            raise ValueError("the image is named without a digest")
        return self._with_retries(
            lambda: self.repository.image(digest, self.architecture), "the image", threading.Event()
        )

    def _fetch_layers(self, image: Image, given_up: threading.Event) -> None:
        root = RootFolder(self.root)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="container-layer") as pool:
            waiting = [pool.submit(self._fetch, layer, given_up) for layer in image.layers]
            try:
                for archive in waiting:
                    path = archive.result()
                    with path.open("rb") as file:
                        root.unpack(_open_layer(file))
                    path.unlink()
            finally:
                for archive in waiting:
                    archive.cancel()
        for name in MOUNTED_FOLDERS:
            root.mount_point(name)
        for name in MOUNTED_FILES:
            root.mount_point(name, of_file=True)

    def _fetch(self, layer: Layer, given_up: threading.Event) -> Path:
        """Return a layer's archive, checked against the manifest's digest."""
        path = self.folder / layer.digest.partition(":")[2]
        self._with_retries(lambda: self._download(layer, path, given_up), layer.digest, given_up)
        return path

    def _with_retries(self, fetch: Callable[[], T], what: str, given_up: threading.Event) -> T:
        """Return the result of a fetch, with retries."""
        for attempt in range(TRIES - 1):
            try:
                return fetch()
            except (RegistryError, OSError) as error:
                if given_up.is_set():
                    raise
                self.log(f"fetching {what} failed ({error}); trying again")
                given_up.wait(FIRST_PAUSE_SECONDS * 2**attempt)
        return fetch()

    def _download(self, layer: Layer, path: Path, given_up: threading.Event) -> None:
        digest = hashlib.sha256()
        with self.repository.blob(layer.digest) as answer, path.open("wb") as file:
            left = layer.size
            while chunk := answer.read(_CHUNK_BYTES):
                left -= len(chunk)
                if given_up.is_set() or left < 0:
                    break
                digest.update(chunk)
                file.write(chunk)
        if f"sha256:{digest.hexdigest()}" != layer.digest:
            raise OSError("the received layer is incomplete, or its digest isn't the manifest's")


def _open_layer(file: BinaryIO) -> BinaryIO:
    """Return a layer's archive, decompressed by its content: registries' types are unreliable."""
    start = file.read(4)
    file.seek(0)
    if start.startswith(_ZSTANDARD):
        raise ValueError(
            "a layer is compressed with zstd, which hosts can't unpack: build the image with gzip "
            "(docker buildx build --output type=image,compression=gzip,force-compression=true)"
        )
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start.startswith(_GZIP) else file
