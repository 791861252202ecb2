"""Solve conda environments for the hosts' platform with rattler: exact archives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from terradask._software.conda import query as conda_query
from terradask._software.conda.file import CondaChannel
from terradask._software.hosts import HOST_GLIBC, MACHINES
from terradask._software.refused import file_refused, without_aws_secrets
from terradask._software.uv import without_users
from terradask.errors import SetupError, SoftwareNotResolved, SoftwareUnusable
from terradask_host.conda_lines import is_conda_line
from terradask_stacks.user_folders import cache_folder

if TYPE_CHECKING:
    from rattler import MatchSpec

RESOLVER = "rattler"

#: glibc of Amazon Linux 2023.
_HOST_KERNEL = "6.1"
#: conda's variable that overrides the detected CUDA driver, here for the hosts'.
_CUDA_VARIABLE = "CONDA_OVERRIDE_CUDA"
_SECONDS = 600
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
    #: URL of the archive, without credentials.
    url: str
    sha256: str
    #: Whether it needs Python, and so may be a package of the Python index.
    needs_python: bool = field(default=False, compare=False)

    @property
    def line(self) -> str:
        """The package's line in ``software.lock``."""
        return f"conda {self.url} --hash=sha256:{self.sha256}"


def subdir_of(architecture: str) -> str:
    """Return the channel subdirectory of a processor architecture."""
    return "linux-64" if architecture == "x86_64" else f"linux-{MACHINES[architecture]}"


@dataclass(frozen=True)
class CondaSolver:
    """Solve for one processor architecture with these channels, in priority order."""

    path: Path
    channels: Sequence[CondaChannel]
    architecture: str
    environ: Mapping[str, str]

    def name(self, spec: str) -> str:
        """Return the package name of a specification. Raises the errors of `check_version`."""
        return _name(self._parsed(spec))

    def check_version(self, spec: str, here: Mapping[str, Sequence[str]]) -> None:
        """Check that a specification allows a version in `here`, the versions that hosts may have
        of packages that must match the client's. Raises `SoftwareUnusable`, `SetupError`.
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
            # The solver reports everything else about the whole file.
            return
        if not any(asked.matches(Version(each)) for each in allowed):
            raise file_refused(
                self.path,
                f"it has {spec}, and the client has {_name(match)} {allowed[0]}",
                advice="make the cluster where this version is installed, or use the local version "
                "in the file",
            )

    def solve(self, specs: Sequence[str]) -> list[CondaPackage]:
        """Return the packages of a solution, sorted by name.

        Raises `SoftwareNotResolved`, `SoftwareUnusable`, `SetupError`.
        """
        for spec in specs:
            self._parsed(spec)
        # rattler's cache of a channel contains its URL, with the token.
        has_token = any((each.credentials or "").startswith("/") for each in self.channels)
        answer = self._ask(
            "solve",
            subdir=subdir_of(self.architecture),
            specs=list(specs),
            virtual_packages=self._virtual_packages(),
            cache=None if has_token else str(_cache()),
        )
        if "behind" in answer:
            raise file_refused(
                self.path,
                f"{answer['channel']} has {', '.join(answer['behind'])} only in versions other "
                "than requested; a channel of lower priority is not used instead",
                advice="request another version, reorder the channels, or name the package's "
                "channel: CHANNEL::PACKAGE",
            )
        return sorted(map(self._package, answer["records"]), key=lambda package: package.name)

    def distributions(self, packages: Sequence[CondaPackage]) -> dict[str, str]:
        """Return the versions of the Python packages that these contain, by index name, from lists
        of files in archives: conda renames some packages.

        Raises `SoftwareNotResolved`.
        """
        answer = self._ask("list", urls=[each.url for each in packages if each.needs_python])
        found = (match for path in answer["paths"] if (match := _DISTRIBUTION.search(path)))
        return {canonicalize_name(match["name"]): match["version"] for match in found}

    def _parsed(self, spec: str) -> MatchSpec:
        try:
            from rattler import MatchSpec
            from rattler.exceptions import InvalidMatchSpecError
        except ImportError as error:
            raise SetupError(
                "rattler, which solves conda environments for hosts, is not installed.",
                given=f"software = {self.path}",
                advice="pip install 'terradask[conda]'",
            ) from error
        try:
            match = MatchSpec(spec)
        except InvalidMatchSpecError as error:
            raise self._refused(spec, str(error).splitlines()[0]) from None
        if "://" in spec and "::" not in spec:
            raise self._refused(spec, "an archive, not a package of a channel")
        if match.channel is not None:
            url = match.channel.base_url.rstrip("/")
            if url not in {channel.url for channel in self.channels}:
                raise self._refused(spec, "its channel is not among the file's channels")
        return match

    def _refused(self, spec: str, why: str) -> SoftwareUnusable:
        return file_refused(
            self.path,
            f"its dependencies have {_hidden(spec)!r}: {_hidden(why)}",
            advice="write it as conda does, such as numpy>=2, and list its channel in channels",
        )

    def _virtual_packages(self) -> list[list[str]]:
        found = [
            ["__unix", "0", "0"],
            ["__linux", _HOST_KERNEL, "0"],
            ["__glibc", "{}.{}".format(*HOST_GLIBC), "0"],
            # The oldest processor level: all instance types share the environment.
            ["__archspec", "1", MACHINES[self.architecture]],
        ]
        cuda = self.environ.get(_CUDA_VARIABLE)
        return [*found, ["__cuda", cuda, "0"]] if cuda else found

    def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Return the reply of `conda_query`. Raises `SoftwareNotResolved`."""
        channels = [[each.url, each.credentials] for each in self.channels]
        try:
            done = subprocess.run(
                # -P keeps the working directory's modules out.
                [sys.executable, "-P", "-m", conda_query.__name__],
                input=json.dumps({"do": what, "channels": channels, **more}),
                env=without_aws_secrets(self.environ),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
            answer: dict[str, Any] = json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._not_resolved(type(error).__name__, unanswered=True) from error
        except ValueError as error:
            problem = done.stderr.strip() or f"it ended with {done.returncode}"
            raise self._not_resolved(problem, unanswered=True) from error
        for outcome in ("unsolvable", "unanswered"):
            if outcome in answer:
                raise self._not_resolved(answer[outcome], unanswered=outcome == "unanswered")
        return answer

    def _not_resolved(self, text: str, *, unanswered: bool) -> SoftwareNotResolved:
        return SoftwareNotResolved(
            _hidden(text), unanswered=unanswered, path=self.path, resolver=RESOLVER
        )

    def _package(self, record: Mapping[str, Any]) -> CondaPackage:
        name, url, sha256 = record["name"], record["url"], record["sha256"]
        if sha256 is None:
            raise self._unusable(name, "the channel lists no SHA-256 for it")
        needs = {need.split()[0] for need in record["depends"]}
        is_of_python = not needs.isdisjoint(("python", "python_abi"))
        package = CondaPackage(name, record["version"], url, sha256, is_of_python)
        if not is_conda_line(package.line):
            raise self._unusable(name, f"hosts can't use its URL: {_hidden(url)}")
        return package

    def _unusable(self, name: str, why: str) -> SoftwareUnusable:
        return file_refused(
            self.path, f"{name}: {why}", advice="use another version or another channel"
        )


def _name(match: MatchSpec) -> str:
    name: str = match.name.normalized
    return name


def _cache() -> Path:
    return cache_folder() / "conda-channels"


def _hidden(text: str) -> str:
    return _TOKENS.sub("/t/***", without_users(text))
