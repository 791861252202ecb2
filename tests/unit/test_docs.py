"""The documentation and the repository keep their promises."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .public_surface import docs_page

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            page
            for folder in ("docs", "examples", "simulator")
            for page in ROOT.glob(f"{folder}/**/*.md")
        ),
    ]
)


def _tracked() -> list[Path]:
    """Return the repository's text files: what git tracks or would track, or everything in an
    unpacked archive.
    """
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = done.stdout.split("\n") if done.returncode == 0 else [str(p) for p in ROOT.rglob("*")]
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def _lines() -> list[tuple[str, int, str]]:
    found = []
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        where = path.relative_to(ROOT).as_posix()
        found += [(where, number, line) for number, line in enumerate(text.splitlines(), start=1)]
    return found


def _hits(pattern: str, *, except_in: tuple[str, ...] = ()) -> list[str]:
    rule = re.compile(pattern)
    return [
        f"{where}:{number}: {line.strip()[:120]}"
        for where, number, line in _lines()
        if rule.search(line) and not where.startswith(except_in)
    ]


# Put together here, so that this file doesn't find itself.
HOME = "/" + "home/(?!me/)[a-z]|/" + "root/|/" + "Users/[a-z]|/" + "work/"
REGISTRIES = "py" + r"pi\.org|pythonhosted\.|npm" + r"js\.|registry\.yarn"
UNFINISHED = "TO" + "DO|FIX" + "ME|NotImplemented" + "Error"


def test_text_is_at_most_100_wide() -> None:
    """Tables, headings, code and addresses aside."""
    wide = []
    for page in PAGES:
        is_code = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            is_code ^= line.lstrip().startswith("```")
            apart = line.lstrip().startswith(("|", "#", "<")) or "](http" in line
            if len(line) > 100 and not is_code and not apart:
                wide.append(f"{page.relative_to(ROOT)}:{number}: {line[:60]}")
    assert wide == []


def test_no_path_of_one_machine() -> None:
    assert _hits(rf"(?<![\w$}}.])({HOME})") == []


def test_no_package_registry_is_named() -> None:
    assert _hits(REGISTRIES) == []


def test_nothing_is_left_for_later() -> None:
    # Patches show lines of moto around what they change.
    assert _hits(UNFINISHED, except_in=("simulator/upstream/", "host/upstream/")) == []


def test_no_file_is_large() -> None:
    large = [str(p.relative_to(ROOT)) for p in _tracked() if p.stat().st_size > 600_000]
    assert large == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(
            r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", page.read_text()
        ):
            link = (target[0] or target[1]).partition("#")[0]
            if link and "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {link}")
    assert broken == []


def test_a_test_makes_each_picture_of_a_screen() -> None:
    """Drawings are SVG; one of those is of a terminal."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py")]
    sources = "".join(text for text in texts if re.search(r"browser import .*\bkeep\b", text))
    shown = [path.stem.removesuffix("-dark") for path in ROOT.glob("docs/images/*.png")]
    assert len(shown) > 10
    called = r'"{0}\.png"|keep_in_both\(.*"{0}"|\): "{0}"'
    assert [name for name in shown if not re.search(called.format(name), sources)] == []
    # Other programs' pages have the look that these give them.
    others = {"dashboard", "labextension"}
    assert {name for name in shown if shown.count(name) != 2} == others


def test_every_page_is_reachable_from_the_index() -> None:
    missing = [
        str(page.relative_to(ROOT))
        for index in (ROOT / "docs/index.md", ROOT / "docs/decisions/README.md")
        for page in sorted(index.parent.glob("*.md"))
        if page != index and f"]({page.name})" not in index.read_text()
    ]
    assert missing == []


def test_decisions_have_one_shape() -> None:
    decisions = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert decisions
    numbers = [path.name[:3] for path in decisions]
    assert numbers == sorted(set(numbers))
    for path in decisions:
        headings = re.findall(r"^## (.+)$", path.read_text(), flags=re.MULTILINE)
        assert headings == ["Context", "Decision", "What it costs"], path.name


def test_pages_for_users_link_no_decisions() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    linking = {
        page.name for page in pages if re.search(r"\]\((docs/)?decisions/", page.read_text())
    }
    assert linking <= {"README.md", "architecture.md", "index.md", "security.md"}


def test_the_index_shows_which_decisions_are_superseded() -> None:
    index = " ".join((ROOT / "docs/decisions/README.md").read_text().split())
    entries = re.findall(r"- \[(\d{3})\]\([^)]+\) (.*?)(?= - \[|$)", index)
    shown = {
        number: re.findall(r"\d{3}", text.partition("(superseded")[2]) for number, text in entries
    }
    marked = {}
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        top = path.read_text().partition("## Context")[0].partition("> Superseded")[2]
        marked[path.name[:3]] = re.findall(r"\[(\d{3})\]\(\1-", top)
    assert shown == marked
    assert sum(map(len, marked.values())) > 20


def test_generated_pages_are_fresh(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    assert docs_page("generate").main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("verb", ["setup", "demo", "test", "lint", "docs"])
def test_the_make_verbs_exist_and_are_documented(verb: str) -> None:
    assert re.search(rf"^{verb}:.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert f"make {verb}" in (ROOT / "CONTRIBUTING.md").read_text()


def test_ci_runs_the_checks_the_tests_whole_lives_and_boots_machines() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    assert re.findall(r"make (.*)", script.read_text()) == [
        "lint",
        "test",
        "simulator-test",
        "life-test",
        "boot-test",
    ]
