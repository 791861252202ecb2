"""What a wheel that was built here has in it: modules that can't be imported, and needs."""

from __future__ import annotations

import email
import io
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from terradask._software.hosts import applies


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


def needs_of(content: bytes, markers: Mapping[str, str]) -> set[str]:
    """Return the names of what a package needs on hosts, without its extras."""
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        about = next(path for path in wheel.namelist() if path.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(about))
    needs = map(Requirement, metadata.get_all("Requires-Dist") or ())
    return {canonicalize_name(need.name) for need in needs if applies(need, (), markers)}


def _is_importable(path: PurePosixPath) -> bool:
    return path.suffix == ".py" and all(part.isidentifier() for part in path.with_suffix("").parts)
