"""The program that synthesises in another Python: ``python -I render_process.py REQUEST ANSWER``.

It runs by its path. Of the user's environment it imports only the packages that the request names:
all else is that Python's own.
"""

import importlib.util
import json
import sys
from importlib import metadata
from pathlib import Path

_PYTHON = (3, 11)


def main(request_path: str, answer_path: str) -> None:
    """Answer a request of `terradask_stacks.rendering`."""
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    found = _unfit(request["exact"], request["present"])
    answer = {"unfit": found} if found else _answer(request)
    Path(answer_path).write_text(json.dumps(answer, default=str), encoding="utf-8")


def _unfit(exact: dict[str, str], present: list[str]) -> list[str]:
    """Return what this Python lacks, or has in another version."""
    if sys.version_info < _PYTHON:
        return [f"Python {sys.version.split()[0]}"]
    found = []
    for name in [*exact, *present]:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
        else:
            if version != exact.get(name, version):
                found.append(f"{name} {version}, not {exact[name]}")
    return found


def _answer(request: dict) -> dict:  # type: ignore[type-arg]  # an older Python reads this too
    for folder in request["packages"]:
        _load_package(Path(folder))
    from terradask_stacks.rendering import answer

    return answer(request)


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
    main(*sys.argv[1:])
