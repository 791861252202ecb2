"""The light client stays light: each of its packages, and the size of its own files, is decided.

A test in `make life-test` has the size of all, and `python -m benchmarks install` that of packages
from an index.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from ..simulator.own_index import names_with_dependencies

ROOT = Path(__file__).parents[2]

#: What `pip install terradask` brings.
PACKAGES = {
    *("terradask", "tomlkit"),
    # Certificates.
    *("cryptography", "cffi", "pycparser"),
    # Settings and documents.
    *("pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection"),
    # What a terminal shows.
    *("rich", "pygments", "markdown-it-py", "mdurl"),
    *("boto3", "s3transfer", "botocore", "jmespath", "python-dateutil", "six", "urllib3"),
    *("dask", "click", "cloudpickle", "fsspec", "packaging", "partd", "locket", "pyyaml", "toolz"),
    *("distributed", "jinja2", "markupsafe", "msgpack", "psutil", "sortedcontainers", "tblib"),
    *("tornado", "zict", "lazy-importer"),
}
OF_OLDER_PYTHONS = {"importlib-metadata", "zipp"}

#: Of terradask's own files. Compiled, they are 2.7 times as large.
MOST_BYTES = 4_500_000


@pytest.mark.locked
def test_the_clients_packages_are_decided() -> None:
    expected = PACKAGES if sys.version_info >= (3, 12) else PACKAGES | OF_OLDER_PYTHONS
    found = names_with_dependencies("terradask")
    assert found == expected, sorted(found ^ expected)


def own_bytes(root: Path) -> int:
    """Return the size of what the wheel has of this repository."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    folders = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return sum(
        file.stat().st_size
        for folder in folders
        for file in (root / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )


def test_terradasks_own_files_are_small() -> None:
    found = own_bytes(ROOT)
    assert MOST_BYTES / 2 < found < MOST_BYTES, "see decision 141: what may the client do without?"
