"""Write the generated parts of ``docs/`` again, or check that they are fresh.

``make docs`` runs it; ``python docs/generate.py --check`` changes nothing and fails when a page is
stale. ``python docs/generate.py --assistants FOLDER`` writes what assistants read, as the site
does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent

# The dark twin of each colour in docs/images/*.svg; colours that are not here serve both.
_DARK = {
    "#1f2328": "#e6edf3",
    "#59636e": "#9da7b3",
    "#6e7781": "#848d97",
    "#f6f8fa": "#161b22",
    "#d0d7de": "#3d444d",
    "#f3ebfb": "#271c3a",
    "#7b42bc": "#a371f7",
    "#5a2d91": "#d2b8ff",
    "#fffaf3": "#1b1712",
    "#c4560c": "#db6d28",
    "#a04100": "#f0a35e",
    'rx="10" fill="#ffffff"': 'rx="10" fill="#0d1117"',
    'rx="8" fill="#ffffff"': 'rx="8" fill="#161b22"',
    "#eaf3ff": "#0f2440",
    "#1f6feb": "#388bfd",
    "#0b4fb3": "#79c0ff",
}


def _settings(_old: str) -> str:
    from settings_reference import settings_markdown

    return settings_markdown()


def _cli(old: str) -> str:
    from cli_reference import commands_markdown, exit_codes_markdown

    page = _between(old, "exit codes", exit_codes_markdown())
    return _between(page, "commands", commands_markdown())


def _python(old: str) -> str:
    from python_reference import errors_markdown, python_markdown

    page = _between(old, "errors", errors_markdown())
    return _between(page, "python", python_markdown())


def _architecture(old: str) -> str:
    sys.path.insert(0, str(DOCS.parent))
    from tests.unit.source_tree import repository
    from tests.unit.structure_rules import packages

    tree = repository()
    shown = [name for name in packages(tree) if not name.startswith("__")]
    summaries = {
        name: tree.modules[f"terradask.{name}"].summary.replace("``", "`").replace("|", "&#124;")
        for name in shown
    }
    rows = [f"| `{name}` | {summary} |" for name, summary in summaries.items()]
    page = _between(old, "packages", "\n".join(["| package | what |", "| --- | --- |", *rows]))
    return _between(page, "commands", _commands())


def _running(old: str) -> str:
    from terradask_host.words import CLUSTERS, HOSTS, JOBS

    parts = []
    for title, words in (("host", HOSTS), ("cluster", CLUSTERS), ("job or task", JOBS)):
        rows = [
            f"| {each.word} | {each.meaning} | {', '.join(f'`{one}`' for one in each.states)} |"
            for each in words
        ]
        parts.append("\n".join([f"| {title} | meaning | states |", "| --- | --- | --- |", *rows]))
    return _between(old, "words", "\n\n".join(parts))


def _commands() -> str:
    from dataclasses import fields

    from terradask_host.commands import Command

    rows = [
        f"| `{each.__name__}` | {', '.join(f'`{one.name}`' for one in fields(each))} | "
        f"{'the forward' if each.over_forward else 'Dask'} |"
        for each in Command.__subclasses__()
        if each.__module__ == Command.__module__
    ]
    return "\n".join(["| operation | arguments | over |", "| --- | --- | --- |", *rows])


def _aws_facts(old: str) -> str:
    from aws_facts import assumptions_markdown, texts

    from terradask._doctor.account_check.assumptions import TESTED_BY

    return _between(old, "claims", assumptions_markdown(texts(), TESTED_BY))


def _aws_sources(old: str) -> str:
    from aws_facts import sources_markdown, texts

    from terradask._doctor.account_check.assumptions import TESTED_BY

    return _between(old, "claims", sources_markdown(texts(), TESTED_BY))


def _simulator(old: str) -> str:
    sys.path.insert(0, str(DOCS.parent))
    from records_table import records_markdown

    return _between(old, "records", records_markdown())


def _packages_picture(_old: str) -> str:
    from package_picture import package_picture

    return package_picture()


def _grafana(source: str) -> Callable[[str], str]:
    def make(_old: str) -> str:
        import grafana_dashboards

        return str(getattr(grafana_dashboards, f"{source}_dashboard")())

    return make


def _dark(picture: str) -> Callable[[str], str]:
    def make(_old: str) -> str:
        drawn = (DOCS / picture).read_text(encoding="utf-8")
        for light, dark in _DARK.items():
            drawn = drawn.replace(light, dark)
        return drawn

    return make


PAGES: dict[str, Callable[[str], str]] = {
    "architecture.md": _architecture,
    "aws-facts.md": _aws_facts,
    "../tests/records/claims.md": _aws_sources,
    "running.md": _running,
    "settings.md": _settings,
    "cli.md": _cli,
    "python.md": _python,
    "simulator.md": _simulator,
    "grafana/cloudwatch.json": _grafana("cloudwatch"),
    "grafana/prometheus.json": _grafana("prometheus"),
    "images/overview-dark.svg": _dark("images/overview.svg"),
    "images/packages.svg": _packages_picture,
    "images/packages-dark.svg": _dark("images/packages.svg"),
}


def _between(page: str, name: str, content: str) -> str:
    """Replace what stands between a page's markers."""
    start, end = f"<!-- generated: {name} -->", "<!-- end of generated -->"
    before, marker, rest = page.partition(start)
    if not marker:
        raise SystemExit(f"no marker {start}")
    return f"{before}{start}\n\n{content.strip()}\n\n{end}{rest.partition(end)[2]}"


def main(arguments: list[str]) -> int:
    """Write, or check, and return the exit code."""
    if arguments[:1] == ["--assistants"]:
        from assistants import write

        write(DOCS.parent, Path(arguments[1]))
        return 0
    stale = []
    for name, make in PAGES.items():
        path = DOCS / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = make(old)
        if new == old:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(new, encoding="utf-8")
    verb = "stale, run make docs" if "--check" in arguments else "written"
    print("\n".join(f"docs/{name}: {verb}" for name in stale) or "docs: fresh")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
