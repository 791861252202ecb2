"""Wheels of packages that a file takes from a folder, an archive's URL or a repository, and that
aren't installed here from there.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from terradask._software.local_wheels import LocalWheel, build_folder, build_wheel
from terradask._software.pylock import DirectPackage
from terradask._software.refused import wheel_refused
from terradask._software.resolver import python_of_hosts
from terradask._software.uv import ask_uv
from terradask._software.wheel_tags import HOST_GLIBC

_SECONDS = 600
_LINES_SHOWN = 15


def build_direct(
    package: DirectPackage, architecture: str, environ: Mapping[str, str]
) -> LocalWheel:
    """Return a package's wheel for hosts. uv fetches it with the credentials of git and netrc, and
    builds it here; a wheel for hosts needn't run here.

    Raises `SoftwareUnusable`, `SetupError`.
    """
    url = urlsplit(package.url)
    if package.kind == "folder":
        inside = url.fragment.removeprefix("subdirectory=")
        folder = Path(unquote(url.path), unquote(inside))
        return build_folder(package.name, folder, architecture, environ)
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        wanted = Path(made, "requirements.txt")
        digest = "" if package.sha256 is None else f" --hash=sha256:{package.sha256}"
        wanted.write_text(f"{package.name} @ {package.url}{digest}\n")
        target = Path(made, "target")
        command = ["pip", "install", "--quiet", "--no-deps", *python_of_hosts(architecture)]
        command += [f"--target={target}", f"--requirements={wanted}"]
        said = ask_uv(command, environ, seconds=_SECONDS)
        installed = list(importlib.metadata.distributions(path=[str(target)]))
        if said.code != 0 or len(installed) != 1:
            lines = "\n".join(said.text.splitlines()[-_LINES_SHOWN:])
            glibc = "{}.{}".format(*HOST_GLIBC)
            hosts = f"hosts with {architecture} and glibc {glibc}"
            raise wheel_refused(package.name, f"uv can't install it for {hosts}:\n{lines}")
        return build_wheel(installed[0], architecture, environ)
