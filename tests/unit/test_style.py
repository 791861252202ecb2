"""Texts are spelled as codespell knows it and keep the rules of ``docs/style.toml``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .public_surface import docs_page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def style() -> ModuleType:
    return docs_page("style")


def test_texts_keep_the_rules_of_style(style: ModuleType) -> None:
    texts = {"pages": style.pages(), "code": style.code()}
    assert len(texts["pages"]) > 30
    assert len(texts["code"]) > 400
    assert style.broken(style.rules(), **texts) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("persons", "Whoever starts it pays."),
        ("tell", "The host tells S3 its name."),
        ("say", "The log says why."),
        ("of-here", "It has the packages of here."),
        ("of-here", "It has the packages of\nhere."),
        ("of-none", "Such names are asked of none."),
        ("of-none", "It came from no index."),
        ("room", "as far as these have room"),
        ("as-far-as", "as far as these have room"),
        ("is-no", "it is no YAML"),
        ("story", "a story of it"),
        ("stray", "a stray volume"),
        ("who", "One. Who uses one needs Python."),
        ("what", "What comes from PyPI, hosts ask their image's index for."),
    ],
)
def test_a_bad_sentence_is_found(style: ModuleType, name: str, text: str) -> None:
    (rule,) = (rule for rule in style.rules() if rule.name == name)
    page = f"# One\n\nA good line.\n{text}\n"
    (place,) = rule.places({"docs/x.md": style.prose(page)})
    assert place.startswith("docs/x.md:4: ")


def test_a_rule_is_broken_by_one_place_more(style: ModuleType, tmp_path: Path) -> None:
    module = tmp_path / "host/terradask_host/x.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        '"""Whoever waits."""\n\nx = 1  # what comes along\ny = ("no room "\n     "of here")\n'
    )
    allowed = style.Rule("persons", r"(?i)\bwhoever\b", "the caller", {"pages": 0, "code": 1})
    none = style.Rule("here", r"\broom of here\b", "local", {"pages": 0, "code": 0})
    texts = {"pages": style.pages(tmp_path), "code": style.code(tmp_path)}
    assert style.broken([allowed], **texts) == []
    assert style.broken([none], **texts) == [
        "here: 1 in code, allowed 0; write local",
        "host/terradask_host/x.py:4: 'room \" \"of here'",
    ]
    module.write_text("x = 1\n")
    assert style.lowered([allowed], pages={}, code=style.code(tmp_path)) == [
        "persons: lower code to 0 in docs/style.toml"
    ]


def test_only_text_is_checked_in_pages(style: ModuleType) -> None:
    generated = "<!-- generated: x -->\ntold\n<!-- end of generated -->\n"
    page = f"`tell` and\n```\ntold\n```\n[a link](docs/told.md)\n{generated}"
    (rule,) = (rule for rule in style.rules() if rule.name == "tell")
    assert list(rule.places({"docs/x.md": style.prose(page)})) == []


def test_texts_are_spelled(style: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    style.main(["--spelled"])
    paths = capsys.readouterr().out.split()
    assert {"README.md", "docs/software.md", "docs/decisions", "cluster"} <= {*paths}
    done = codespell(*paths)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_misspelled_word_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("A " + "netw" + "rok.\n")
    done = codespell(str(tmp_path / "x.md"))
    assert done.returncode == 65
    assert "network" in done.stdout


def codespell(*paths: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codespell_lib", *paths]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
