"""Build wheels of local packages, which hosts can't download.

uv builds an editable package from its folder. Other packages are packed from their installed files:
these are the files that run locally, and packing needs neither a repository nor its credentials.
"""

from __future__ import annotations

import email
import hashlib
import importlib.metadata
import io
import re
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from terradask._software.hosts import HOST_GLIBC, applies, platform_mismatch, wheel_tags
from terradask._software.package_origin import editable_folder
from terradask._software.pylock import DirectPackage
from terradask._software.refused import wheel_refused
from terradask._software.resolver import uv_platform_options
from terradask._software.uv import run_uv
from terradask_stacks.wheel_file import write_wheel

_SECONDS = 600
#: 1980-01-01 in UTC, the first day that a zip archive can hold.
_EPOCH_SECONDS = "315532800"
#: Files that installers add to those of a wheel (PEP 376, 610 and 710, and uv's).
_OF_INSTALLERS = frozenset(
    {"RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json"}
    | {"uv_cache.json", "provenance_url.json"}
)
_LINES_SHOWN = 15


@dataclass(frozen=True)
class LocalWheel:
    """A locally built wheel."""

    name: str
    version: str
    filename: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The hexadecimal checksum."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def key(self) -> str:
        """The name among the cluster's objects, which contains the SHA-256."""
        return f"wheels/{self.sha256}/{self.filename}"


def build_wheel(
    distribution: importlib.metadata.Distribution, architecture: str, environ: Mapping[str, str]
) -> LocalWheel:
    """Return an installed package's wheel for hosts; equal files give equal bytes.

    Raises `SoftwareUnusable`, `SetupError`.
    """
    name = canonicalize_name(distribution.metadata["Name"])
    folder = editable_folder(distribution)
    if folder is not None:
        return build_folder(name, folder, architecture, environ)
    obstacle = build_obstacle(distribution, architecture)
    if obstacle is not None:
        raise wheel_refused(name, obstacle)
    return _wheel(name, architecture, *_installed_files(distribution))


def build_folder(
    name: str, folder: Path, architecture: str, environ: Mapping[str, str]
) -> LocalWheel:
    """Build a package's folder with uv. Raises the errors of `build_wheel`."""
    return _wheel(name, architecture, *_built_files(name, folder, environ))


def _wheel(name: str, architecture: str, filename: str, files: Mapping[str, bytes]) -> LocalWheel:
    try:
        found, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise wheel_refused(name, str(error)) from None
    if found != name:
        raise wheel_refused(name, f"its folder builds another package: {filename}")
    unsuited = platform_mismatch(map(str, tags), architecture)
    if unsuited is not None:
        raise wheel_refused(name, unsuited)
    return LocalWheel(name, str(version), filename, write_wheel(files))


def build_obstacle(distribution: importlib.metadata.Distribution, architecture: str) -> str | None:
    """Return why no wheel for hosts can be built from an installed package's files, or None."""
    if editable_folder(distribution) is not None:
        return None
    tags = wheel_tags(distribution)
    if not tags or distribution.files is None:
        return "its files are not listed as those of a wheel"
    outside = sorted(
        str(path) for path in distribution.files if _is_outside(path, _scripts(distribution))
    )
    if outside:
        return f"it has files outside Python's package folders: {outside[0]}"
    return platform_mismatch(tags, architecture)


def _scripts(distribution: importlib.metadata.Distribution) -> frozenset[str]:
    """Return the names of the programs that an installer makes from entry points."""
    return frozenset(
        each.name
        for each in distribution.entry_points
        if each.group in ("console_scripts", "gui_scripts")
    )


def _is_outside(path: PurePosixPath, scripts: frozenset[str]) -> bool:
    if ".." not in path.parts and not path.is_absolute():
        # pip install --target puts programs inside.
        return False
    made = path.name in scripts or path.name.removesuffix(".exe") in scripts
    return not made and "__pycache__" not in path.parts


def _installed_files(distribution: importlib.metadata.Distribution) -> tuple[str, dict[str, bytes]]:
    """Return a wheel's file name and files from an installed package."""
    scripts = _scripts(distribution)
    files: dict[str, bytes] = {}
    about = ""
    for path in distribution.files or ():
        in_about = len(path.parts) == 2 and path.parts[0].endswith(".dist-info")
        if in_about:
            about = path.parts[0]
        made = path.parts[0] in ("..", "bin", "Scripts") and path.stem in scripts
        of_installer = in_about and path.name in _OF_INSTALLERS
        if made or of_installer or "__pycache__" in path.parts or ".." in path.parts:
            continue
        there = Path(str(distribution.locate_file(path)))
        # Newer finders omit deleted files, older ones list them.
        if there.is_file():
            files[path.as_posix()] = there.read_bytes()
    tags = (tag.split("-") for tag in wheel_tags(distribution))
    parts = [set(column) for column in zip(*tags, strict=False)]
    tag = "-".join(".".join(sorted(part)) for part in parts)
    return f"{about.removesuffix('.dist-info')}-{tag}.whl", files


def _built_files(
    name: str, folder: Path, environ: Mapping[str, str]
) -> tuple[str, dict[str, bytes]]:
    """Build a folder's wheel with uv, and return its name and files."""
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        settings = Path(made) / "setup.cfg"
        # setuptools keeps files in build/, also those of deleted modules.
        settings.write_text(f"[build]\nbuild_base = {Path(made) / 'build'}\n", encoding="utf-8")
        out = Path(made) / "dist"
        # --quiet would also hide the build's output.
        command = ["build", "--wheel", f"--python={sys.executable}"]
        command += [f"--out-dir={out}", "--no-create-gitignore", str(folder)]
        own = {"SOURCE_DATE_EPOCH": _EPOCH_SECONDS, "DIST_EXTRA_CONFIG": str(settings)}
        result = run_uv(command, {**environ, **own}, seconds=_SECONDS)
        wheels = sorted(out.glob("*.whl"))
        if result.code != 0 or len(wheels) != 1:
            lines = "\n".join(result.text.splitlines()[-_LINES_SHOWN:])
            raise wheel_refused(name, f"uv build {folder} failed:\n{lines}")
        with zipfile.ZipFile(wheels[0]) as archive:
            files = {each: archive.read(each) for each in archive.namelist() if each[-1] != "/"}
        return wheels[0].name, {
            path: content
            for path, content in files.items()
            if not re.fullmatch(r"[^/]+\.dist-info/RECORD", path)
        }


# ---- packages from a folder, a URL or a repository in a file, which aren't installed locally -----


def build_direct(
    package: DirectPackage, architecture: str, environ: Mapping[str, str]
) -> LocalWheel:
    """Build a package's wheel for hosts. uv fetches the package with the credentials of git and
    netrc; the wheel needn't run on this machine.

    Raises `SoftwareUnusable`, `SetupError`.
    """
    url = urlsplit(package.url)
    if package.kind == "folder":
        inside = url.fragment.removeprefix("subdirectory=")
        folder = Path(url2pathname(url.path), unquote(inside))
        return build_folder(package.name, folder, architecture, environ)
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        wanted = Path(made, "requirements.txt")
        digest = "" if package.sha256 is None else f" --hash=sha256:{package.sha256}"
        wanted.write_text(f"{package.name} @ {package.url}{digest}\n", encoding="utf-8")
        target = Path(made, "target")
        command = ["pip", "install", "--quiet", "--no-deps", *uv_platform_options(architecture)]
        command += [f"--target={target}", f"--requirements={wanted}"]
        result = run_uv(command, environ, seconds=_SECONDS)
        installed = list(importlib.metadata.distributions(path=[str(target)]))
        if result.code != 0 or len(installed) != 1:
            lines = "\n".join(result.text.splitlines()[-_LINES_SHOWN:])
            glibc = "{}.{}".format(*HOST_GLIBC)
            hosts = f"hosts with {architecture} and glibc {glibc}"
            raise wheel_refused(package.name, f"uv can't install it for {hosts}:\n{lines}")
        return build_wheel(installed[0], architecture, environ)


# ---- the contents of a wheel: syntax errors, and dependencies ------------------------------------


def syntax_errors(content: bytes) -> dict[str, str]:
    """Return the first syntax error of each importable module, by its path."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(content)) as wheel, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in wheel.namelist():
            if not _is_importable(PurePosixPath(path)):
                continue
            try:
                compile(wheel.read(path), path, "exec", dont_inherit=True)
            except SyntaxError as error:
                found[path] = f"{path}, line {error.lineno}: {error.msg}"
            except ValueError as error:
                found[path] = f"{path}: {error}"
    return found


def dependency_names(content: bytes, markers: Mapping[str, str]) -> set[str]:
    """Return the names of a package's dependencies on hosts, without extras."""
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        about = next(path for path in wheel.namelist() if path.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(about))
    needs = map(Requirement, metadata.get_all("Requires-Dist") or ())
    return {canonicalize_name(need.name) for need in needs if applies(need, (), markers)}


def _is_importable(path: PurePosixPath) -> bool:
    return path.suffix == ".py" and all(part.isidentifier() for part in path.with_suffix("").parts)
