"""A report's Markdown as a page, as a code host shows a comment: its elements, in its own styles.

GitHub's styles are those of github-markdown-css, which is made from GitHub's pages. GitLab
publishes the values of its colours and sizes in @gitlab/ui; the rules that use them follow
``app/assets/stylesheets/framework/typography.scss`` of GitLab.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from .code_hosts import Host, rendered, sanitized

Theme = Literal["light", "dark"]

#: The width of a comment's text on a wide page, and of a phone, in pixels.
WIDE, PHONE = 860, 390

_STYLES = Path(__file__).with_name("code_host_styles") / "node_modules"
_FILES: dict[tuple[Host, Theme], str] = {
    ("github", "light"): "github-markdown-light.css",
    ("github", "dark"): "github-markdown-dark.css",
    ("gitlab", "light"): "tokens.css",
    ("gitlab", "dark"): "tokens.dark.css",
}

NEEDS_STYLES = pytest.mark.skipif(
    not all((_STYLES / name).exists() for name in _FILES.values()),
    reason="the code hosts' stylesheets are missing: make code-host-styles",
)

#: What encloses a comment, and its classes.
_PAGE = """
html, body {{ margin: 0; }}
.comment {{ box-sizing: border-box; max-width: {width}px; padding: 16px; }}
"""
_GITHUB = """
html { background: %s; }
.comment.markdown-body { font-size: 14px; }
"""
_GITHUB_BACKGROUND = {"light": "#ffffff", "dark": "#0d1117"}
#: A diff's lines: the classes of GitHub's and of GitLab's highlighters.
_LINES: dict[Host, dict[str, str]] = {
    "github": {"+": "pl-mi1", "-": "pl-md", "@": "pl-mdr"},
    "gitlab": {"+": "gi", "-": "gd", "@": "gu"},
}
_GITLAB = """
html { background: var(--gl-background-color-default); }
.comment { color: var(--gl-text-color-default); overflow-wrap: break-word;
  font: 14px/1.5 var(--gl-font-family-regular); }
.comment *:first-child { margin-top: 0; }
.comment > :last-child { margin-bottom: 0; }
h2 { margin: 24px 0 16px; padding-bottom: .3em; font-size: 1.5em; font-weight: 600;
  line-height: 1.3; color: var(--gl-text-color-heading);
  border-bottom: 1px solid var(--gl-border-color-default); }
p, ul, details, pre { margin: 0 0 16px; }
summary { cursor: pointer; }
ul { padding: 0; } ul ul { margin-bottom: 0; list-style-type: circle; }
li { margin-left: 25px; padding-left: 3px; line-height: 1.6em; }
sub { position: relative; bottom: -.25em; font-size: 75%; line-height: 0;
  vertical-align: baseline; }
code { padding: 2px 4px; font: 90% var(--gl-font-family-monospace); white-space: pre-wrap;
  overflow-wrap: break-word; word-break: keep-all; color: var(--gl-text-color-strong);
  background: var(--gl-background-color-strong); border-radius: 4px; }
pre { padding: 8px 12px; overflow-x: auto; font: 13px/1.6em var(--gl-font-family-monospace);
  background: var(--gl-background-color-subtle); border-radius: 4px;
  border: 1px solid var(--gl-border-color-default); }
pre code { padding: 0; font-size: inherit; white-space: pre; overflow-wrap: normal;
  background: none; }
table { display: block; width: auto; margin: 16px 0; overflow-x: auto;
  border-collapse: collapse; }
th, td { padding: 12px; text-align: left; vertical-align: top;
  border: 1px solid var(--gl-border-color-default); }
.markdown-alert { margin: 0 0 16px; padding: 8px 16px;
  border-left: 4px solid var(--gl-feedback-danger-border-color); }
.markdown-alert-title { margin: 0 0 8px; font-weight: 600;
  color: var(--gl-feedback-danger-text-color); }
.markdown-alert > :last-child { margin-bottom: 0; }
.gd { color: #000; background: #fdd; } .gi { color: #000; background: #dfd; }
.gl-dark .gd { color: #ecebea; background: #582014; }
.gl-dark .gi { color: #ecebea; background: #0e4328; }
"""


def page(markdown: str, *, host: Host = "github", theme: Theme = "light", width: int = WIDE) -> str:
    """Return the page of one comment."""
    body = _with_colours(sanitized(rendered(markdown, host)), host)
    rules = _GITLAB if host == "gitlab" else _GITHUB % _GITHUB_BACKGROUND[theme]
    style = (_STYLES / _FILES[host, theme]).read_text(encoding="utf-8")
    view = '<meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html><html class="gl-{theme}"><meta charset=utf-8>{view}'
        f"<style>{style}{_PAGE.format(width=width)}{rules}</style>"
        f'<div class="comment {"markdown-body" if host == "github" else "md"}">{body}</div>'
    )


def _with_colours(body: str, host: Host) -> str:
    """Return a page whose diffs have the colours that a host's highlighter gives them."""

    def line(text: str) -> str:
        kind = _LINES[host].get(text[:1])
        return f'<span class="{kind}">{text}</span>\n' if kind else f"{text}\n"

    return re.sub(
        r'(<pre lang="diff"><code>)(.*?)(</code>)',
        lambda found: found[1] + "".join(map(line, found[2].splitlines())) + found[3],
        body,
        flags=re.DOTALL,
    )
