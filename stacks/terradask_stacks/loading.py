"""Load settings from ``terradask.toml``, Dask's configuration, environment variables and arguments,
in this order.

Each value's origin is kept, so that an error names the file, variable or argument to change, and
every problem is reported at once.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from terradask_modules.tracebacks import DEBUG_VARIABLE
from terradask_stacks.backend_options import read_backend_options
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.files import first_link, foreign_owner
from terradask_stacks.findings import findings_of
from terradask_stacks.layers import Layers, with_underscores
from terradask_stacks.lock import LOCK_NAME
from terradask_stacks.settings import OUTSIDE_OF_FILE, Settings
from terradask_stacks.user_folders import data_folder

__all__ = ["FILE_NAME", "Finding", "LoadedSettings", "SettingsError", "find_file", "load_settings"]

FILE_NAME = "terradask.toml"
STATE_DIR_VARIABLE = "TERRADASK_STATE_DIR"
#: The path of a Python that has the extra `deploy`.
SYNTHESIS_PYTHON_VARIABLE = "TERRADASK_SYNTHESIS_PYTHON"


@dataclass(frozen=True, kw_only=True)
class LoadedSettings:
    """Settings, and where they came from."""

    settings: Settings
    #: The ``terradask.toml`` that was read, if there was one.
    path: Path | None
    #: The folder of that file, or the user's data folder for terradask.
    root: Path
    #: ``TERRADASK_STATE_DIR``, else ``<root>/.terradask``.
    state_dir: Path
    #: Where stacks are synthesised and Terraform runs: ``cdktf.out`` under the root, or under
    #: ``TERRADASK_STATE_DIR``.
    out_dir: Path
    lock_path: Path
    #: ``section.key`` -> where its value came from; values that are defaults are not listed.
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def is_of_file(self, name: str) -> bool:
        """Return whether the value of ``section.key`` is the file's."""
        return self.origins.get(name) == _in_file(name, self.path)


def load_settings(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    dask_config: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Load and validate the settings.

    Raises `SettingsError`, listing every unknown key, with the nearest valid one, and every value
    that can't be used.

    Parameters
    ----------
    path
        A ``terradask.toml``, or its folder. By default it is searched from the working directory
        upwards; it may be absent.
    environ
        Environment variables; by default the process's.
    dask_config
        Dask's configuration under ``terradask``. Keys may be written with ``-`` or ``_``. Its
        ``backend-options`` are defaults: the file overrides them.
    overrides
        Arguments of a call: ``{"cluster": {"n_workers": 4}}``.

    Returns
    -------
    LoadedSettings
        The settings with the origin of each value.
    """
    environ = os.environ if environ is None else environ
    layers = Layers(reserved=(STATE_DIR_VARIABLE, SYNTHESIS_PYTHON_VARIABLE, DEBUG_VARIABLE))
    found = _existing(path) if path is not None else find_file(Path.cwd())
    config = with_underscores(dask_config or {})
    options = read_backend_options(config.pop("backend_options", None), short_names=True)
    layers.add(options, lambda name: f"terradask.backend-options ({name}) in Dask's configuration")
    if found is not None:
        _add_file(layers, _read_toml(found), found)
    layers.begin_choices()
    layers.add(config, lambda name: f"terradask.{name} in Dask's configuration")
    layers.add_environment(environ)
    layers.add(
        overrides or {},
        lambda name: f"argument {name.partition('.')[2] or name}",
        above_declared=True,
    )
    settings = _validated(layers)
    root = found.parent if found is not None else data_folder()
    given = environ.get(STATE_DIR_VARIABLE)
    state_dir = Path(given).expanduser().absolute() if given else root / ".terradask"
    out_dir = (state_dir if given else root) / "cdktf.out"
    _refuse_links(out_dir, state_dir, is_given=bool(given))
    return LoadedSettings(
        settings=settings,
        path=found,
        root=root,
        state_dir=state_dir,
        out_dir=out_dir,
        lock_path=(state_dir if given or found is None else root) / LOCK_NAME,
        origins=MappingProxyType(layers.origins),
    )


def _refuse_links(out_dir: Path, state_dir: Path, *, is_given: bool) -> None:
    """Refuse links among what terradask writes: a repository's would lead to other files here."""
    kept = {state_dir / "plans": 1} if is_given else {state_dir: 2}
    levels = {out_dir: 3, **kept}
    link = next(filter(None, (first_link(*each) for each in levels.items())), None)
    if link is not None:
        raise SettingsError.of(
            where=str(link),
            problem="a symbolic link where terradask writes its own files",
            given=f"it leads to {link.readlink()}",
            allowed="files and folders",
            advice=f"remove the link; {STATE_DIR_VARIABLE} names another place for what "
            "terradask keeps",
        )


def settings_in(text: str, path: Path) -> Settings:
    """Return the settings of a file alone, by its text, without other layers.

    Raises `SettingsError` as `load_settings` does.
    """
    layers = Layers()
    _add_file(layers, _parsed(text, path), path)
    layers.begin_choices()
    return _validated(layers)


def _add_file(layers: Layers, content: dict[str, Any], path: Path) -> None:
    for section, key in OUTSIDE_OF_FILE:
        table = content.get(section)
        if not isinstance(table, dict) or key not in table:
            continue
        layers.findings.append(
            Finding(
                where=_in_file(f"{section}.{key}", path),
                problem="this setting guards against the file's author, so it can't be in the file",
                given=table.pop(key),
                allowed=f"TERRADASK_{section}__{key}=...".upper()
                + f", or terradask.{section}.{key} in your own Dask configuration",
                advice="remove it here; set it there if you know whose account that is",
            )
        )
    layers.add(content, lambda name: _in_file(name, path))


def _in_file(name: str, path: Path | None) -> str:
    return f"{name} in {path}"


def existing_file(path: Path | None = None) -> Path:
    """Return the settings file of a path, which may be its folder; by default the nearest from the
    working directory upwards. Raises `SettingsError` if there is none.
    """
    found = find_file(Path.cwd()) if path is None else None
    return _existing(path or Path.cwd()) if found is None else found


def find_file(start: Path) -> Path | None:
    """Return the nearest ``terradask.toml`` from a folder upwards, if there is one.

    Raises `SettingsError` where it lies above the folder and another user controls it.
    """
    folder = start.absolute()
    candidates = (parent / FILE_NAME for parent in (folder, *folder.parents))
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None or found.parent == folder:
        return found
    owner = foreign_owner(found, found.parent)
    if owner is None:
        return found
    raise SettingsError.of(
        where=str(found),
        problem="another user controls this file, which lies above the working directory",
        given=f"user {owner}",
        allowed="a file and folder of your own, or of root",
        advice=f"if you trust it, name its folder: terradask -C {found.parent} ..., or "
        "Workspace.load(folder); if not, write your own here: terradask init",
    )


def _existing(path: Path) -> Path:
    candidate = (path / FILE_NAME if path.is_dir() else path).absolute()
    if not candidate.is_file():
        raise SettingsError.of(
            where=str(path),
            problem="there is no settings file",
            allowed=f"a {FILE_NAME}, or its folder",
            advice="write one with: terradask init",
        )
    return candidate


def _validated(layers: Layers) -> Settings:
    try:
        settings = Settings.model_validate(layers.values())
    except ValidationError as error:
        layers.findings.extend(findings_of(error, model=Settings, origins=layers.origins))
    else:
        if settings.has_offers:
            # Most settings have none.
            from terradask_stacks.offers import with_offers

            settings, wrong = with_offers(settings, layers.origins, layers.arguments)
            layers.findings.extend(wrong)
    if layers.findings:
        raise SettingsError(layers.findings)
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _broken(path, "can't be read", error) from error
    except UnicodeDecodeError as error:
        raise _broken(path, "is not TOML", error) from error
    return _parsed(text, path)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(path, "is not TOML", error) from error


def _broken(path: Path, how: str, error: Exception) -> SettingsError:
    return SettingsError.of(
        where=str(path), problem=f"the file {how}: {error}", advice="correct the file"
    )
