"""A report's Markdown as a page, as a code host shows a comment: elements, widths and colours."""

from __future__ import annotations

import re
from typing import Literal

from markdown_it import MarkdownIt

Theme = Literal["light", "dark"]

#: The width of a comment's text on a wide page of GitHub, and on a phone, in pixels.
WIDE, PHONE = 860, 390

_COLOURS = {
    "light": {
        "page": "#ffffff",
        "text": "#1f2328",
        "quiet": "#59636e",
        "line": "#d1d9e0",
        "code": "#818b981f",
        "block": "#f6f8fa",
        "danger": "#cf222e",
        "added": "#dafbe1",
        "removed": "#ffebe9",
    },
    "dark": {
        "page": "#0d1117",
        "text": "#f0f6fc",
        "quiet": "#9198a1",
        "line": "#3d444d",
        "code": "#656c7633",
        "block": "#151b23",
        "danger": "#f85149",
        "added": "#033a16",
        "removed": "#67060c",
    },
}

_STYLE = """
body {{ margin: 0; background: {page}; color: {text}; }}
.comment {{ box-sizing: border-box; max-width: {width}px; padding: 16px; font: 14px/1.5 sans-serif;
  overflow-wrap: break-word; }}
h2 {{ margin: 0 0 8px; padding-bottom: 5px; font-size: 21px; border-bottom: 1px solid {line}; }}
p, ul, table, details, pre, .alert {{ margin: 0 0 16px; }}
ul {{ padding-left: 2em; }} li > ul, li > pre {{ margin-bottom: 4px; }}
code {{ padding: .2em .4em; font: 85% monospace; white-space: break-spaces; background: {code};
  border-radius: 6px; }}
pre {{ padding: 16px; overflow: auto; font: 85%/1.45 monospace; background: {block};
  border-radius: 6px; }}
pre code {{ padding: 0; font-size: 100%; white-space: pre; background: none; }}
table {{ display: block; width: max-content; max-width: 100%; overflow: auto;
  border-collapse: collapse; }}
td, th {{ padding: 6px 13px; border: 1px solid {line}; text-align: left; }}
.alert {{ padding: 8px 16px; border-left: 4px solid {danger}; }}
.alert > p:first-child {{ margin-bottom: 8px; color: {danger}; font-weight: 600; }}
.alert > ul {{ margin: 0; padding-left: 1.4em; }}
summary {{ cursor: pointer; }} sub {{ color: {quiet}; font-size: 75%; vertical-align: baseline; }}
.added {{ display: block; background: {added}; }}
.removed {{ display: block; background: {removed}; }}
"""

#: Elements and attributes that GitHub's and GitLab's sanitizers keep, of those that reports use.
KEPT_TAGS = frozenset({"details", "summary", "code", "sub", "br"})


def page(markdown: str, *, theme: Theme = "light", width: int = WIDE) -> str:
    """Return the page of one comment."""
    rendered = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    body = _with_colours(_with_alerts(rendered.render(markdown)))
    style = _STYLE.format(width=width, **_COLOURS[theme])
    view = '<meta name="viewport" content="width=device-width">'
    return (
        f"<!doctype html><meta charset=utf-8>{view}<style>{style}</style>"
        f'<div class="comment">{body}</div>'
    )


def _with_alerts(body: str) -> str:
    return re.sub(
        r"<blockquote>\s*<p>\[!CAUTION\]\s*(</p>)?(.*?)</blockquote>",
        r'<div class="alert"><p>&#9888; Caution</p>\2</div>',
        body,
        flags=re.DOTALL,
    )


def _with_colours(body: str) -> str:
    return re.sub(
        r'(<code class="language-diff">)(.*?)(</code>)',
        lambda found: found[1] + "".join(map(_line, found[2].splitlines())) + found[3],
        body,
        flags=re.DOTALL,
    )


def _line(text: str) -> str:
    kind = {"+": "added", "-": "removed"}.get(text[:1])
    return f'<span class="{kind}">{text}</span>' if kind else f"{text}\n"
