"""Run uv as a program, with a restricted configuration."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from terradask._software.indexes.configured import Machine, find_links, is_remote_url, uv_tables
from terradask._software.installers import find_uv
from terradask._software.refused import without_aws_secrets
from terradask_modules.programs import environ_for_programs

#: The credentials between a URL's scheme and host.
_USER = re.compile(r"(?<=://)[^\s/@]+(?=@)")


@dataclass(frozen=True)
class UvOutput:
    """uv's exit code and output, without credentials."""

    #: None if uv couldn't run, or timed out.
    code: int | None
    text: str
    output: str = ""
    timed_out: bool = False


def run_uv(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    seconds: float,
    folder: Path | None = None,
    of_project: bool = False,
    text: str | None = None,
) -> UvOutput:
    """Run uv in a folder, by default the working directory, with the effective configuration there
    (`uv_settings`), with a project's sources if `of_project`, and `text` on standard input.

    Raises `SetupError`, `SoftwareUnusable`.
    """
    here = Machine.here(environ)
    machine = here if folder is None else replace(here, folder=folder)
    settings = uv_settings(environ, machine, of_project=of_project)
    try:
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            named = Path(made, "uv.toml")
            named.write_text(to_toml(settings), encoding="utf-8")
            done = subprocess.run(
                [find_uv(environ), *arguments, "--color=never", f"--config-file={named}"],
                env=uv_variables(environ_for_programs(environ), machine),
                input=text or "",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
                cwd=folder,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return UvOutput(
            None,
            without_users(f"{type(error).__name__}: {error}"),
            timed_out=isinstance(error, subprocess.TimeoutExpired),
        )
    return UvOutput(done.returncode, without_users(done.stderr.strip()), done.stdout)


def without_users(text: str) -> str:
    """Return a text with the credentials in its URLs removed."""
    return _USER.sub("***", text)


# ---- uv's effective configuration when terradask runs uv -----------------------------------------
# Only indexes, their authentication and builds count. Other settings concern the user's own calls
# of uv, such as its output format, extras, or packages for other systems.


#: Settings in files, by https://docs.astral.sh/uv/reference/settings.
_OF_INDEXES = frozenset(
    {"index", "index-url", "extra-index-url", "find-links", "no-index", "index-strategy"}
    | {"exclude-newer", "exclude-newer-package", "keyring-provider", "allow-insecure-host"}
    | {"native-tls", "system-certs", "http-proxy", "https-proxy", "no-proxy", "offline"}
    | {"cache-dir"}
)
_OF_BUILDS = frozenset(
    {"build-constraint-dependencies", "config-settings", "config-settings-package"}
    | {"extra-build-dependencies", "extra-build-variables"}
    | {"no-build-isolation", "no-build-isolation-package"}
)
#: A project's settings about its own packages.
_OF_PROJECT = frozenset(
    {"constraint-dependencies", "override-dependencies", "exclude-dependencies"}
    | {"dependency-metadata", "prerelease", "resolution"}
)
#: Settings of the table for `uv pip` alone.
_OF_PIP = frozenset({"torch-backend"})
#: Variables, by https://docs.astral.sh/uv/reference/environment.
_VARIABLES = re.compile(
    r"UV_(?:INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|INDEX_STRATEGY|EXCLUDE_NEWER"
    r"|INDEX_\w+_(?:USERNAME|PASSWORD)|KEYRING_PROVIDER|CREDENTIALS_DIR|INSECURE_HOST|TORCH_BACKEND"
    r"|NATIVE_TLS|SYSTEM_CERTS|OFFLINE|HTTP_\w+|REQUEST_TIMEOUT|CONCURRENT_\w+|LOCK_TIMEOUT"
    r"|CACHE_DIR|NO_CACHE|LINK_MODE|GIT_LFS|NO_GITHUB_FAST_PATH|NO_BUILD_ISOLATION)"
)


def uv_variables(environ: Mapping[str, str], machine: Machine) -> dict[str, str]:
    """Return the environment with only effective uv variables, and without AWS credentials: uv
    sends variables to any index. A keyring that the user chose may need them, such as
    CodeArtifact's.
    """
    found = {
        name: value
        for name, value in environ.items()
        if not name.startswith("UV_") or _VARIABLES.fullmatch(name)
    }
    return found if _uses_own_keyring(environ, machine) else without_aws_secrets(found)


def _uses_own_keyring(environ: Mapping[str, str], machine: Machine) -> bool:
    """Return whether uv uses a keyring that no project file configured."""
    of_project = {machine.folder, *machine.folder.parents}
    providers = [environ.get("UV_KEYRING_PROVIDER")]
    providers += [
        table.get("keyring-provider")
        for path, table, _ in uv_tables(environ, machine)
        if path.parent not in of_project
    ]
    return next(filter(None, providers), None) == "subprocess"


def uv_settings(
    environ: Mapping[str, str], machine: Machine, *, of_project: bool = False
) -> dict[str, Any]:
    """Return the effective settings of uv's files, with a project's package sources if
    `of_project`. Raises `SoftwareUnusable`.
    """
    kept = _OF_INDEXES | _OF_BUILDS | (_OF_PROJECT if of_project else frozenset())
    found: dict[str, Any] = {}
    pip: dict[str, Any] = {}
    # The first file takes precedence; lists are joined, as in uv.
    for _, table, _ in uv_tables(environ, machine):
        for name, value in table.items():
            if name in _OF_PIP:
                pip.setdefault(name, value)
            elif name in kept and isinstance(value, list) and isinstance(found.get(name), list):
                found[name] = [*found[name], *value]
            elif name in kept:
                found.setdefault(name, value)
    pages = [each for each in find_links(environ, machine) if is_remote_url(each)]
    # pip's links too: installed packages may come from them.
    more = [each for each in pages if each not in found.get("find-links", ())]
    if more:
        found["find-links"] = [*found.get("find-links", ()), *dict.fromkeys(more)]
    return {**found, "pip": pip} if pip else found


def to_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as the text of a ``uv.toml``."""
    import tomlkit

    # uv reads dates as strings.
    return tomlkit.dumps(json.loads(json.dumps(settings, default=str)))
