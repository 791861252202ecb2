"""Find uv and pip: installed ones; otherwise uv as pip downloads it, by hash, or pip as uv runs it.

An environment made by pip has pip, and one made by uv has uv on ``PATH``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from packaging.version import Version

from terradask.errors import SetupError
from terradask_modules.frameworks import installed_version
from terradask_modules.programs import environ_for_programs, find_program
from terradask_stacks.user_folders import cache_folder

#: pip where the environment has none.
_PIP = "pip>=24"
_QUOTED = 5
#: Older ones write ``pylock.toml`` without hashes for packages of a page without hashes.
_OLDEST_UV = Version("0.13")
_UV = re.compile(r"^uv==(\S+).*?(?=^[a-z]|\Z)", re.MULTILINE | re.DOTALL)


def find_uv(environ: Mapping[str, str]) -> str:
    """Return uv's path: beside this Python or on ``PATH``, if it is new enough; otherwise in the
    user's cache folder, where pip downloads it to, in one version. Raises `SetupError`.
    """
    found = _installed_uv(environ)
    if found is None:
        return str(_cached_uv(environ, "neither beside this Python nor on PATH"))
    is_old = _is_old(found, Path(found).stat().st_mtime_ns)
    return str(_cached_uv(environ, f"{found} is older than {_OLDEST_UV}")) if is_old else found


def download_archives(
    requirements: str, folder: Path, environ: Mapping[str, str], options: Sequence[str] = ()
) -> str | None:
    """Download wheels with pip, from pip's configured index, into a folder. The requirements have
    hashes. Return the end of pip's output if it failed. Raises `SetupError`.
    """
    command = _pip_command(environ)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        listed = Path(made, "requirements.txt")
        listed.write_text(requirements, encoding="utf-8")
        answer = subprocess.run(
            [
                *(*command, "--quiet", "--disable-pip-version-check", "--no-input", "download"),
                *("--no-deps", "--require-hashes", "--only-binary", ":all:", *options),
                *("--dest", str(folder), "--requirement", str(listed)),
            ],
            # pip may run a keyring program.
            env=environ_for_programs(environ),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    return "\n".join(answer.stderr.strip().splitlines()[-_QUOTED:]) if answer.returncode else None


def _installed_uv(environ: Mapping[str, str]) -> str | None:
    # On Windows, programs of a Python outside of a virtual environment are in a folder below it.
    beside = (str(Path(sys.executable).parent), sysconfig.get_path("scripts"))
    return find_program("uv", environ, before=beside)


@cache
def _is_old(uv: str, _written_at: int) -> bool:
    """Return whether a uv is too old, by its own word."""
    done = subprocess.run([uv, "--version"], capture_output=True, encoding="utf-8", check=False)
    version = re.match(r"uv (\d+(?:\.\d+)*)", done.stdout)
    return version is not None and Version(version[1]) < _OLDEST_UV


def _has_pip() -> bool:
    return installed_version("pip") is not None


def _pip_command(environ: Mapping[str, str]) -> list[str]:
    if _has_pip():
        # -P keeps the working directory's modules out, such as a pip.py.
        return [sys.executable, "-P", "-m", "pip"]
    uv = _installed_uv(environ)
    if uv is None:
        raise SetupError(
            "pip, which downloads packages for hosts, was not found.",
            given="neither pip in this environment, nor uv beside its Python or on PATH",
            advice=f"install one of them: {sys.executable} -m ensurepip",
        )
    return [uv, "tool", "run", "--quiet", f"--python={sys.executable}", f"--from={_PIP}", "pip"]


def _cached_uv(environ: Mapping[str, str], missing: str) -> Path:
    """Return uv in the user's cache, downloaded if necessary: the version that hosts have.
    `missing` is what is wrong with an installed one.
    """
    version, lines = _locked_uv()
    name = "uv.exe" if sys.platform == "win32" else "uv"
    path = cache_folder() / "uv" / version / name
    if path.exists():
        return path
    if not _has_pip():
        raise _not_found(f"{missing}, and no pip to download it with")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=path.parent) as made:
        failed = download_archives(lines, Path(made), environ)
        if failed is not None:
            raise _not_found(f"{missing}; pip: {failed}")
        (wheel,) = Path(made).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            inside = next(each for each in archive.namelist() if each.endswith(f"/scripts/{name}"))
            unpacked = Path(made, name)
            unpacked.write_bytes(archive.read(inside))
        unpacked.chmod(0o755)
        # Complete or absent, also when two processes do it.
        unpacked.replace(path)
    return path


def _locked_uv() -> tuple[str, str]:
    """Return the version of uv that hosts have, and its lines with hashes."""
    text = files("terradask_host").joinpath("boot.lock").read_text(encoding="utf-8")
    found = _UV.search(text)
    assert found is not None
    return found[1], found[0]


def _not_found(given: str) -> SetupError:
    return SetupError(
        "uv, which resolves this environment for hosts, was not found.",
        given=given,
        advice=f"pip install 'uv>={_OLDEST_UV}'; or package_sync=False for hosts with Dask alone",
    )
