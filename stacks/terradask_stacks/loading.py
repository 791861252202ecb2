"""Settings from ``terradask.toml``, Dask's configuration, environment variables and arguments, in this order.

Each value's origin is remembered, so that an error names the file, variable or argument to change, and every problem is
reported at once.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from platformdirs import user_data_path
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.findings import findings_of, nearest
from terradask_stacks.lock import LOCK_NAME
from terradask_stacks.settings import Settings

__all__ = ["FILE_NAME", "Finding", "LoadedSettings", "SettingsError", "find_file", "load_settings"]

FILE_NAME = "terradask.toml"
STATE_DIR_VARIABLE = "TERRADASK_STATE_DIR"
_PREFIX = "TERRADASK_"
_RESERVED_PREFIXES = ("TERRADASK_HOST_", "TERRADASK_SIM_")


@dataclass(frozen=True, kw_only=True)
class LoadedSettings:
    """Settings, and where they came from.

    Parameters
    ----------
    settings
        The validated settings.
    path
        The ``terradask.toml`` that was read, if there was one.
    root
        The folder of that file, or the user's data folder for terradask.
    state_dir
        ``TERRADASK_STATE_DIR``, else ``<root>/.terradask``.
    out_dir
        Where stacks are synthesised and Terraform runs: ``cdktf.out`` under the root, or under ``TERRADASK_STATE_DIR``.
    lock_path
        The file of locked answers.
    origins
        ``section.key`` -> where its value came from; values that are defaults are not listed.
    """

    settings: Settings
    path: Path | None
    root: Path
    state_dir: Path
    out_dir: Path
    lock_path: Path
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def load_settings(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    dask_config: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Load and validate the settings.

    Parameters
    ----------
    path
        A ``terradask.toml``, or its folder. By default it is looked for from the working directory upwards; having none is fine.
    environ
        Environment variables; by default the process's.
    dask_config
        What Dask's configuration says under ``terradask``. Keys may be written with ``-`` or ``_``.
    overrides
        Arguments of a call: ``{"cluster": {"n_workers": 4}}``.

    Returns
    -------
    LoadedSettings
        The settings with the origin of each value.

    Raises
    ------
    SettingsError
        Listing every unknown key, with the nearest valid one, and every value that can't be used.
    """
    environ = os.environ if environ is None else environ
    merge = _Merge()
    found = _existing(path) if path is not None else find_file(Path.cwd())
    if found is not None:
        merge.add(_read_toml(found), lambda name: f"{name} in {found}")
    if dask_config:
        merge.add(_with_underscores(dask_config), lambda name: f"terradask.{name} in Dask's configuration")
    merge.add_environment(environ)
    if overrides:
        merge.add(overrides, lambda name: f"argument {name.partition('.')[2] or name}")
    try:
        settings = Settings.model_validate(merge.values)
    except ValidationError as error:
        merge.findings.extend(findings_of(error, model=Settings, origins=merge.origins))
    if merge.findings:
        raise SettingsError(merge.findings)
    root = found.parent if found is not None else _user_folder()
    given = environ.get(STATE_DIR_VARIABLE)
    state_dir = Path(given).expanduser().absolute() if given else root / ".terradask"
    return LoadedSettings(
        settings=settings,
        path=found,
        root=root,
        state_dir=state_dir,
        out_dir=(state_dir if given else root) / "cdktf.out",
        lock_path=(state_dir if given or found is None else root) / LOCK_NAME,
        origins=MappingProxyType(merge.origins),
    )


def find_file(start: Path) -> Path | None:
    """Return the nearest ``terradask.toml`` from a folder upwards, if there is one."""
    folder = start.absolute()
    candidates = (parent / FILE_NAME for parent in (folder, *folder.parents))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@dataclass
class _Merge:
    """Layers of values, laid over each other."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, layer: Mapping[str, Any], origin: Callable[[str], str]) -> None:
        sections = Settings.model_fields
        for section, content in layer.items():
            if section not in sections:
                self._unknown(origin(section), f"there is no section {section!r}", section, list(sections), content)
            elif content is None:
                continue
            elif not isinstance(content, Mapping):
                self.findings.append(
                    Finding(
                        where=origin(section),
                        problem="a section is a table of settings",
                        given=content,
                        allowed=f"[{section}] with {', '.join(_fields_of(section))}",
                    )
                )
            else:
                for key, value in content.items():
                    self._set(section, key, value, origin(f"{section}.{key}"))

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for variable, text in sorted(environ.items()):
            if not variable.startswith(_PREFIX) or variable == STATE_DIR_VARIABLE:
                continue
            if variable.startswith(_RESERVED_PREFIXES):
                continue
            section, separator, key = variable.removeprefix(_PREFIX).lower().partition("__")
            if not separator or section not in Settings.model_fields or key not in _fields_of(section):
                self._unknown(variable, "no setting has this variable", variable, list(_variables()), text)
                continue
            self._set(section, key, _parse(text, _fields_of(section)[key]), variable)

    def _set(self, section: str, key: str, value: Any, origin: str) -> None:
        fields = _fields_of(section)
        if key not in fields:
            elsewhere = [f"{other}.{key}" for other in Settings.model_fields if key in _fields_of(other)]
            known = elsewhere or list(fields)
            self._unknown(origin, f"[{section}] has no setting {key!r}", key, known, value)
            return
        name = f"{section}.{key}"
        present = self.values.setdefault(section, {})
        if isinstance(value, Mapping) and isinstance(present.get(key), Mapping):
            present[key] = _merged(present[key], value)
        else:
            present[key] = value
        self.origins[name] = origin
        if isinstance(value, Mapping):
            self.origins.update({f"{name}.{item}": origin for item in value})

    def _unknown(self, where: str, problem: str, name: str, known: list[str], given: Any) -> None:
        near = known[0] if len(known) == 1 and "." in known[0] else nearest(name, known)
        self.findings.append(
            Finding(
                where=where,
                problem=problem,
                given=given,
                allowed=", ".join(known) if len(known) <= 30 else "TERRADASK_<SECTION>__<KEY>; see docs/settings.md",
                advice=f"did you mean {near}?" if near else "remove it",
            )
        )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _fields_of(section: str) -> dict[str, FieldInfo]:
    model: Any = Settings.model_fields[section].annotation
    fields: dict[str, FieldInfo] = model.model_fields
    return fields


def _variables() -> Iterator[str]:
    for section in Settings.model_fields:
        for key in _fields_of(section):
            yield f"{_PREFIX}{section}__{key}".upper()
    yield STATE_DIR_VARIABLE


def _parse(text: str, setting: FieldInfo) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # A cluster zone or a name that looks like a number stays the text that it was.
    is_text = setting.annotation is str or setting.annotation == (str | None)
    return text if is_text and value is not None and not isinstance(value, str) else value


def _with_underscores(config: Mapping[str, Any]) -> dict[str, Any]:
    def plain(name: Any) -> str:
        return str(name).replace("-", "_")

    return {
        plain(section): {plain(key): value for key, value in content.items()} if isinstance(content, Mapping) else content
        for section, content in config.items()
    }


def _existing(path: Path) -> Path:
    candidate = (path / FILE_NAME if path.is_dir() else path).absolute()
    if not candidate.is_file():
        raise SettingsError(
            [
                Finding(
                    where=str(path),
                    problem="there is no settings file",
                    allowed=f"a {FILE_NAME}, or its folder",
                    advice="write one with: terradask init",
                )
            ]
        )
    return candidate


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        kind = "is no TOML" if isinstance(error, ValueError) else "can't be read"
        finding = Finding(where=str(path), problem=f"the file {kind}: {error}", advice="correct the file")
        raise SettingsError([finding]) from error


def _user_folder() -> Path:
    return Path(user_data_path("terradask", appauthor=False))
