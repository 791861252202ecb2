"""rattler as the solver: exact archives of conda's packages for the hosts' platform."""

from __future__ import annotations

import asyncio
import datetime
import re
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from packaging.utils import canonicalize_name

from terradask._software.conda_channels import CondaChannel
from terradask._software.hosts import MACHINES
from terradask._software.uv import without_users
from terradask._software.wheel_tags import HOST_GLIBC
from terradask.errors import CondaSupportMissing, SoftwareFileInvalid, SoftwareNotResolved
from terradask_host.channel_credentials import headers, with_token
from terradask_host.conda_lines import is_conda_line

if TYPE_CHECKING:
    from rattler import Channel, Client, Gateway, GenericVirtualPackage, MatchSpec, Subdir
    from rattler.repo_data import RepoDataRecord

T = TypeVar("T")

RESOLVER = "rattler"

#: Of Amazon Linux 2023.
_HOST_KERNEL = "6.1"
#: conda's own variable for a machine whose driver it can't see: hosts'.
_CUDA_VARIABLE = "CONDA_OVERRIDE_CUDA"
_SECONDS = 300
_RETRIES = 3
_READS = 16
_DISTRIBUTION = re.compile(
    r"(?:^|/)site-packages/(?P<name>[^/]+?)-(?P<version>[^/-]+)"
    r"(?:\.dist-info/METADATA|(?:-py\d[\d.]*)?\.egg-info(?:/PKG-INFO)?)$"
)
_TOKENS = re.compile(r"/t/[^/\s]+")


@dataclass(frozen=True)
class CondaPackage:
    """One package of a solution."""

    name: str
    version: str
    #: Of its archive, without credentials.
    url: str
    sha256: str
    #: Whether it needs Python, and so may have packages of its index.
    needs_python: bool = field(default=False, compare=False)

    @property
    def line(self) -> str:
        """Its line in ``software.lock``."""
        return f"conda {self.url} --hash=sha256:{self.sha256}"


def subdir_of(architecture: str) -> str:
    """Return the subdirectory of channels for hosts of a processor architecture."""
    return "linux-64" if architecture == "x86_64" else f"linux-{MACHINES[architecture]}"


@dataclass(frozen=True)
class CondaSolver:
    """Solves for hosts of one processor architecture, with these channels, in their order."""

    path: Path
    channels: Sequence[CondaChannel]
    architecture: str
    environ: Mapping[str, str]

    def name(self, spec: str) -> str:
        """Return the package of a specification. Raises as `check_version`."""
        return _name(self._parsed(spec))

    def check_version(self, spec: str, here: Mapping[str, Sequence[str]]) -> None:
        """Check that a specification allows one of the versions that hosts may have of its package,
        if it is one of these. Raises `SoftwareFileInvalid`, `CondaSupportMissing`.
        """
        from rattler.exceptions import InvalidVersionSpecError
        from rattler.version import Version, VersionSpec

        match = self._parsed(spec)
        allowed = here.get(_name(match))
        if allowed is None or match.version is None:
            return
        try:
            asked = VersionSpec(match.version)
        except InvalidVersionSpecError:
            # Whatever it is, the solver says it of the whole file.
            return
        if not any(asked.matches(Version(each)) for each in allowed):
            raise SoftwareFileInvalid(
                self.path,
                f"it has {spec}, and here is {_name(match)} {allowed[0]}",
                advice="make the cluster where this version is installed, or let the file have "
                "the version of here",
            )

    def solve(self, specs: Sequence[str]) -> list[CondaPackage]:
        """Return the packages of a solution, by name.

        Raises `SoftwareNotResolved`, `SoftwareFileInvalid`, `CondaSupportMissing`.
        """
        parsed = [self._parsed(spec) for spec in specs]
        records = self._run(lambda client: self._solved(client, parsed))
        return sorted(map(self._package, records), key=lambda package: package.name)

    def distributions(self, packages: Sequence[CondaPackage]) -> dict[str, str]:
        """Return the version of each Python package that these contain, by its name in an index:
        conda has other names for some. Reads lists of files in archives.

        Raises `SoftwareNotResolved`.
        """
        wanted = [package.url for package in packages if package.needs_python]
        paths = self._run(lambda client: self._listed(client, wanted))
        found = (match for path in paths if (match := _DISTRIBUTION.search(path)))
        return {canonicalize_name(match["name"]): match["version"] for match in found}

    def _parsed(self, spec: str) -> MatchSpec:
        try:
            from rattler import MatchSpec
            from rattler.exceptions import InvalidMatchSpecError
        except ImportError as error:
            raise CondaSupportMissing(self.path) from error
        try:
            match = MatchSpec(spec)
        except InvalidMatchSpecError as error:
            raise self._refused(spec, str(error).splitlines()[0]) from None
        if "://" in spec and "::" not in spec:
            raise self._refused(spec, "an archive, and not a package of a channel")
        if match.channel is not None:
            url = match.channel.base_url.rstrip("/")
            if url not in {channel.url for channel in self.channels}:
                raise self._refused(spec, "of a channel that isn't in its channels")
        return match

    def _refused(self, spec: str, why: str) -> SoftwareFileInvalid:
        return SoftwareFileInvalid(
            self.path,
            f"its dependencies have {_hidden(spec)!r}: {_hidden(why)}",
            advice="write it as conda does, such as numpy>=2, and the channel into channels",
        )

    async def _solved(self, client: Client, specs: Sequence[MatchSpec]) -> Sequence[RepoDataRecord]:
        from rattler import Channel, ChannelPriority, Gateway, solve

        credentials = _credentials(self.channels)
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            # What is kept of a channel names its URL, with its token.
            has_token = any(each.startswith("/") for each in credentials.values())
            gateway = Gateway(cache_dir=Path(made) if has_token else _cache(), client=client)
            channels = [Channel(with_token(each.url, credentials)) for each in self.channels]
            records = await solve(
                channels,
                list(specs),
                gateway=gateway,
                platforms=self._platforms,
                virtual_packages=self._virtual_packages(),
                channel_priority=ChannelPriority.Strict,
                timeout=datetime.timedelta(seconds=_SECONDS),
                # Of other channels than the file's the user knows nothing.
                channel_relations="disabled",
            )
            await self._check_priority(gateway, channels, specs, records)
            return records

    async def _check_priority(
        self,
        gateway: Gateway,
        channels: Sequence[Channel],
        specs: Sequence[MatchSpec],
        records: Sequence[RepoDataRecord],
    ) -> None:
        """Check that no package is of a channel behind one that has its name: rattler lets the
        version in a file's own entry decide, and the channel behind it may be everyone's.
        """
        free = {_name(spec) for spec in specs if spec.channel is not None}
        left = {record.name.normalized: record for record in records}
        for channel in channels:
            left = {
                name: record
                for name, record in left.items()
                if name not in free and record.channel.rstrip("/") != channel.base_url.rstrip("/")
            }
            if not left:
                return
            found = await gateway.query([channel], self._platforms, list(left), recursive=False)
            hidden = sorted({one.name.normalized for every in found for one in every})
            if hidden:
                raise SoftwareFileInvalid(
                    self.path,
                    f"{_hidden(channel.base_url)} has {', '.join(hidden)}, and in none of the "
                    "versions that are asked for: a channel behind it isn't taken instead",
                    advice="ask for another version, put the channels into another order, or name "
                    "the channel of the package: CHANNEL::PACKAGE",
                )

    @property
    def _platforms(self) -> list[Subdir]:
        from rattler import Subdir

        return [Subdir(subdir_of(self.architecture)), Subdir("noarch")]

    def _virtual_packages(self) -> list[GenericVirtualPackage]:
        from rattler import GenericVirtualPackage, PackageName, Version
        from rattler.package import BuildString

        has = {
            "__unix": ("0", "0"),
            "__linux": (_HOST_KERNEL, "0"),
            "__glibc": ("{}.{}".format(*HOST_GLIBC), "0"),
            # Of the oldest processor: instance types differ, the environment is one.
            "__archspec": ("1", MACHINES[self.architecture]),
        }
        if cuda := self.environ.get(_CUDA_VARIABLE):
            has["__cuda"] = (cuda, "0")
        return [
            GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
            for name, (version, build) in has.items()
        ]

    async def _listed(self, client: Client, urls: Sequence[str]) -> list[str]:
        from rattler.package_streaming import PackageArchive

        turn, credentials = asyncio.Semaphore(_READS), _credentials(self.channels)

        async def read(url: str) -> list[str]:
            async with turn:
                archive = await PackageArchive.from_url(client, with_token(url, credentials))
                listed = await archive.paths_json()
            return [each.relative_path.as_posix() for each in listed.paths]

        every = await asyncio.gather(*map(read, urls))
        return [path for paths in every for path in paths]

    def _run(self, ask: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run what asks channels, in a thread of its own: this one may have an event loop."""
        from rattler import Client
        from rattler.exceptions import SolverError
        from rattler.networking import AddHeadersMiddleware, RetryMiddleware

        credentials = _credentials(self.channels)

        async def run() -> T:
            client = Client(
                [
                    RetryMiddleware(_RETRIES),
                    AddHeadersMiddleware(lambda host, path: headers(host, path, credentials)),
                ]
            )
            return await ask(client)

        try:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(lambda: asyncio.run(run())).result()
        except SoftwareFileInvalid:
            raise
        except SolverError as error:
            raise self._not_resolved(error, unanswered=False) from None
        except Exception as error:  # noqa: BLE001 - rattler's errors have no base of their own
            # They repeat URLs.
            raise self._not_resolved(error, unanswered=True) from None

    def _not_resolved(self, error: Exception, *, unanswered: bool) -> SoftwareNotResolved:
        return SoftwareNotResolved(
            _hidden(str(error).strip()), unanswered=unanswered, path=self.path, resolver=RESOLVER
        )

    def _package(self, record: RepoDataRecord) -> CondaPackage:
        name, credentials = record.name.normalized, _credentials(self.channels)
        url = record.url
        for channel in self.channels:
            asked = with_token(channel.url, credentials)
            if url.startswith(f"{asked}/"):
                url = channel.url + url.removeprefix(asked)
        if record.sha256 is None:
            raise self._lacking(name, "the channel has no SHA-256 of it")
        package = CondaPackage(
            name,
            str(record.version),
            url,
            record.sha256.hex(),
            any(need.split()[0] in ("python", "python_abi") for need in record.depends),
        )
        if not is_conda_line(package.line):
            raise self._lacking(name, f"its URL is none that hosts take: {_hidden(url)}")
        return package

    def _lacking(self, name: str, why: str) -> SoftwareFileInvalid:
        return SoftwareFileInvalid(
            self.path, f"{name}: {why}", advice="take another version, or from another channel"
        )


def _name(match: MatchSpec) -> str:
    name: str = match.name.normalized
    return name


def _credentials(channels: Sequence[CondaChannel]) -> dict[str, str]:
    return {each.url: each.credentials for each in channels if each.credentials is not None}


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("terradask") / "conda-channels"


def _hidden(text: str) -> str:
    return _TOKENS.sub("/t/***", without_users(text))
