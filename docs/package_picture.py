"""Draw the packages as a picture: each row imports only from the rows below it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.source_tree import ROOTS, Tree, repository
from tests.unit.structure_rules import packages

_WIDTH, _BOX_HEIGHT, _ROW_HEIGHT, _LEFT, _TOP = 1000, 40, 84, 20, 66
#: What a name means, in a few words; longer ones are in the table of architecture.md.
_WORDS = {
    "errors": "one tree",
    "_common": "files, clock, progress",
    "_aws": "sessions, S3, groups",
    "_catalog": "types, prices, quotas",
    "_terraform": "commands, state, lock",
    "_network": "the baseline",
    "_software": "packages for hosts",
    "_plans": "plans and policy",
    "_observe": "status, logs, costs",
    "_synthesis": "settings to stacks",
    "_clusters": "start, attach, stop",
    "_cleanup": "leftovers, orphans",
    "_workspace": "Workspace",
    "_dask": "Cluster",
    "_doctor": "checks",
    "cli": "command line",
    "app": "cdktf's app",
    "cost": "for programs",
    "policy": "for programs",
    "terradask_modules": "constructs, pure",
    "terradask_stacks": "settings, stacks",
    "terradask_host": "on each instance",
    "terradask_simulator": "the embedded AWS",
}


def package_picture() -> str:
    """Return the picture as SVG."""
    tree = repository()
    graph = _graph(tree)
    rows = _rows(graph)
    places = dict(_places(rows))
    height = _TOP + len(rows) * _ROW_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">",
        "  <title>Packages of terradask: each row imports only from the rows below it</title>",
        '  <text x="20" y="30" font-size="16" font-weight="600" fill="#1f2328">terradask</text>',
        '  <text x="118" y="30" font-size="13" fill="#59636e">'
        "each package imports only from the rows below; grey boxes are the other roots</text>",
    ]
    for name, imported in _direct(graph).items():
        parts += [_line(places[name], places[other]) for other in sorted(imported)]
    parts += [_box(name, place, is_root=name in ROOTS) for name, place in places.items()]
    return "\n".join([*parts, "</svg>", ""])


def _graph(tree: Tree) -> dict[str, set[str]]:
    names = [name for name in packages(tree) if not name.startswith("__")]
    found: dict[str, set[str]] = {name: set() for name in [*names, *ROOTS] if name != "terradask"}
    for module in tree.modules.values():
        here = _package(module.name)
        if here not in found:
            continue
        for one in module.imports:
            target = tree.target(one)
            there = _package(target) if target else here
            if there in found and there != here:
                found[here].add(there)
    return found


def _package(module: str) -> str:
    root, _, rest = module.partition(".")
    return root if root != "terradask" else rest.partition(".")[0]


def _rows(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the packages from the top row to the bottom one, each as low as its imports allow."""
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = max((of(other) + 1 for other in graph[name]), default=0)
        return depth[name]

    for name in graph:
        of(name)
    return [
        [n for n in graph if depth[n] == row] for row in sorted(set(depth.values()), reverse=True)
    ]


def _direct(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that no other import implies, so that the picture stays readable."""

    def reached(names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for name in names:
            found |= graph[name] | reached(graph[name])
        return found

    return {name: imported - reached(imported) for name, imported in graph.items()}


def _places(rows: list[list[str]]) -> Iterable[tuple[str, tuple[float, float, float]]]:
    for number, row in enumerate(rows):
        room = (_WIDTH - 2 * _LEFT) / max(len(row), 1)
        width = min(190.0, room - 12)
        for index, name in enumerate(row):
            yield name, (_LEFT + room * (index + 0.5), _TOP + number * _ROW_HEIGHT, width)


def _line(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    x1, y1, x2, y2 = start[0], start[1] + _BOX_HEIGHT, end[0], end[1]
    bend = (y2 - y1) / 2
    return (
        f'  <path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} '
        f'{x2:.0f} {y2:.0f}" '
        'fill="none" stroke="#6e7781" stroke-width="1" stroke-opacity="0.55"/>'
    )


def _box(name: str, place: tuple[float, float, float], *, is_root: bool) -> str:
    x, y, width = place
    fill, edge = ("#f6f8fa", "#d0d7de") if is_root else ("#eaf3ff", "#1f6feb")
    return (
        f'  <rect x="{x - width / 2:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_BOX_HEIGHT}" '
        'rx="8" '
        f'fill="{fill}" stroke="{edge}"/>\n'
        f'  <text x="{x:.0f}" y="{y + 17:.0f}" font-size="12.5" font-weight="600" fill="#1f2328" '
        f'text-anchor="middle">{name}</text>\n'
        f'  <text x="{x:.0f}" y="{y + 32:.0f}" font-size="10.5" fill="#59636e" '
        f'text-anchor="middle">{_WORDS.get(name, "")}</text>'
    )
