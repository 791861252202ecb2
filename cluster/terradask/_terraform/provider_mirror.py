"""Find the source of the AWS provider: the registry, or an unpacked local copy.

No request goes to the registry. Terraform checks a copy against the checksums of the lock file.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from terradask._terraform.program import OPENTOFU, PROGRAMS, TERRAFORM, Program
from terradask_modules.frameworks import PROVIDER_SOURCE, PROVIDER_VERSION
from terradask_stacks.files import foreign_owner, write_whole
from terradask_stacks.user_folders import cache_folder

#: Terraform's variable for its configuration file.
CLI_CONFIG_VARIABLE = "TF_CLI_CONFIG_FILE"


#: Folders that are skipped: without mirrors, endless, or slow.
_SKIPPED = frozenset(
    {
        "proc",
        "sys",
        "dev",
        "run",
        "boot",
        "lost+found",
        "node_modules",
        "site-packages",
        "dist-packages",
        "__pycache__",
        ".git",
        ".cache",
        ".venv",
        "venv",
        ".npm",
        ".cargo",
        ".rustup",
        ".conda",
        "Caches",
        ".terraform",
    }
)

_SEARCH_SECONDS = 5.0
_SEARCH_DEPTH = 6


@dataclass(frozen=True)
class ProviderSource:
    """Terraform's source of the provider."""

    #: ``registry``, ``mirror`` (found by terradask) or ``user`` (the user's configuration).
    kind: str
    #: The value for ``TF_CLI_CONFIG_FILE``, or None.
    cli_config: Path | None = None
    #: The mirror's folder, if terradask found one.
    mirror: Path | None = None
    #: The program that uses it.
    program: Program = TERRAFORM

    def __str__(self) -> str:
        """Return a description."""
        if self.kind == "mirror":
            return f"the mirror at {self.mirror}"
        if self.kind == "user":
            return f"the settings in {self.cli_config}"
        return self.program.registry


def this_platform() -> str:
    """Return this machine's operating system and processor in Terraform's form."""
    machine = platform.machine().lower()
    architecture = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(
        machine, machine
    )
    return f"{platform.system().lower()}_{architecture}"


def holds_provider(
    mirror: Path, version: str = PROVIDER_VERSION, *, program: Program = TERRAFORM
) -> bool:
    """Return whether a folder is this user's mirror with the program's unpacked provider."""
    folder = mirror / program.registry / PROVIDER_SOURCE / version / this_platform()
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.name.startswith("terraform-provider-aws")
                and entry.is_file()
                and os.access(entry.path, os.X_OK)
                and foreign_owner(mirror, folder, Path(entry.path)) is None
                for entry in entries
            )
    except OSError:
        return False


def find_mirror(
    roots: Sequence[Path] | None = None,
    *,
    program: Program = TERRAFORM,
    version: str = PROVIDER_VERSION,
    limit_seconds: float = _SEARCH_SECONDS,
    depth: int = _SEARCH_DEPTH,
) -> Path | None:
    """Find an unpacked filesystem mirror of the AWS provider on this machine."""
    if roots is None:
        for folder in implied_mirrors(os.environ, program):
            if holds_provider(folder, version, program=program):
                return folder
        roots = [Path("/")]
    deadline = time.monotonic() + limit_seconds
    for root in roots:
        for folder in _folders(root, depth, deadline):
            if folder.name == program.registry and holds_provider(
                folder.parent, version, program=program
            ):
                return folder.parent
    return None


def implied_mirrors(environ: Mapping[str, str], program: Program = TERRAFORM) -> list[Path]:
    """Return the folders that the program itself searches, and its plugin cache."""
    home = Path(environ.get("HOME") or "~").expanduser()
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    data_dirs = [
        Path(p)
        for p in (environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
        if p
    ]
    folders = [
        home / ".terraform.d/plugins",
        # OpenTofu searches Terraform's folders too.
        *([data / "opentofu/plugins"] if program is OPENTOFU else []),
        *(d / "terraform/plugins" for d in [data, *data_dirs]),
    ]
    cache = environ.get("TF_PLUGIN_CACHE_DIR")
    return [*folders, *([Path(cache)] if cache else []), home / ".terraform.d/plugin-cache"]


def _folders(root: Path, depth: int, deadline: float) -> Iterator[Path]:
    """Walk folders on one file system, level by level: mirrors are rarely deep."""
    try:
        device = root.stat().st_dev
    except OSError:
        return
    level = [root]
    for _ in range(depth):
        below: list[Path] = []
        for folder in level:
            if time.monotonic() > deadline:
                return
            for child in _children(folder, device):
                yield child
                below.append(child)
        level = below


def _children(folder: Path, device: int) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.name not in _SKIPPED
                and entry.is_dir(follow_symlinks=False)
                and entry.stat(follow_symlinks=False).st_dev == device
            ]
    except OSError:
        return []


def own_cli_config(program: Program = TERRAFORM) -> Path:
    """Return the path of the configuration that terradask writes for a program."""
    return cache_folder() / f"{program.command}.rc"


def write_cli_config(
    mirror: Path, path: Path | None = None, *, program: Program = TERRAFORM
) -> Path:
    """Write a program's configuration that takes every provider of its registry from a mirror."""
    path = path or own_cli_config(program)
    path.parent.mkdir(parents=True, exist_ok=True)
    quoted = (
        str(mirror)
        .replace("\\", "\\\\")
        .replace('"', '\\"')
        .replace("${", "$${")
        .replace("%{", "%%{")
    )
    text = (
        f"# Written by `terradask doctor --fix`. {program.name} takes providers from this folder "
        "instead of the registry.\n"
        "provider_installation {\n"
        "  filesystem_mirror {\n"
        f'    path    = "{quoted}"\n'
        f'    include = ["{program.registry}/*/*"]\n'
        "  }\n"
        "  direct {\n"
        f'    exclude = ["{program.registry}/*/*"]\n'
        "  }\n"
        "}\n"
    )
    write_whole(path, text)
    return path


def cli_config_in_use(environ: Mapping[str, str], program: Program = TERRAFORM) -> ProviderSource:
    """Return the source from which a program will get the provider."""
    named = environ.get(CLI_CONFIG_VARIABLE)
    if named and Path(named).is_file():
        own_ones = {own_cli_config(each).resolve() for each in PROGRAMS}
        if Path(named).resolve() not in own_ones:
            return ProviderSource("user", Path(named), program=program)
    default = _default_settings(environ, program)
    if not named and default is not None:
        return ProviderSource("user", default, program=program)
    own = own_cli_config(program)
    mirror = _mirror_in(own)
    if mirror is not None and holds_provider(mirror, program=program):
        return ProviderSource("mirror", own, mirror, program)
    return ProviderSource("registry", program=program)


def source_or_copy(environ: Mapping[str, str], program: Program = TERRAFORM) -> ProviderSource:
    """Return the source from which a program will get the provider. Before the registry, a copy on
    this machine: if there is one, write the configuration that uses it.
    """
    source = cli_config_in_use(environ, program)
    if source.kind != "registry":
        return source
    mirror = find_mirror(program=program)
    if mirror is None:
        return source
    return ProviderSource("mirror", write_cli_config(mirror, program=program), mirror, program)


def _default_settings(environ: Mapping[str, str], program: Program) -> Path | None:
    """Return the user's configuration that a program reads by itself."""
    home = Path(environ.get("HOME") or "~").expanduser()
    found = [home / name for name in program.settings]
    if program is OPENTOFU and environ.get("XDG_CONFIG_HOME"):
        found.append(Path(environ["XDG_CONFIG_HOME"]) / "opentofu/tofurc")
    return next((path for path in found if path.is_file()), None)


def _mirror_in(path: Path) -> Path | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        key, separator, value = line.partition("=")
        if separator and key.strip() == "path":
            text = value.strip().strip('"')
            return Path(
                text.replace("$${", "${")
                .replace("%%{", "%{")
                .replace('\\"', '"')
                .replace("\\\\", "\\")
            )
    return None
