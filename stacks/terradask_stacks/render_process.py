"""The program that synthesises in another Python: ``python -I render_process.py REQUEST ANSWER``;
with ``--unpack PACKAGE...``, it only lets jsii unpack what every synthesis loads.

It runs by its path. Of the user's environment it imports only the packages that the request names:
all else is that Python's own.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path

_PYTHON = (3, 11)


def main(request_path: str, answer_path: str) -> None:
    """Answer a request of `terradask_stacks.rendering`."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    answer = _answer(request)
    Path(answer_path).write_text(json.dumps(answer, default=str), encoding="utf-8")


def _answer(request: dict) -> dict:  # type: ignore[type-arg]  # an older Python reads this too
    if sys.version_info < _PYTHON:
        return {"unfit": [f"Python {sys.version.split()[0]}"]}
    for folder in request["packages"]:
        _load_package(Path(folder))
    from terradask_modules.frameworks import installed_version, lacking, versions_here

    absent = (name for name in request["present"] if installed_version(name) is None)
    unfit = [*lacking(), *(f"no {name}" for name in absent)]
    if unfit:
        return {"unfit": unfit}
    if not request["stacks"]:
        return {"versions": versions_here()}
    from terradask_stacks.rendering import answer

    return answer(request)


def unpack(*packages: str) -> None:
    """Import the app of own packages, which loads the provider's bindings."""
    for folder in packages:
        _load_package(Path(folder))
    importlib.import_module("terradask_stacks.app")


def _load_package(folder: Path) -> None:
    """Import a package of a folder that isn't on Python's path."""
    spec = importlib.util.spec_from_file_location(
        folder.name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is not a package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[folder.name] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if sys.argv[1] == "--unpack":
        unpack(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
