"""GitHub's and GitLab's way from Markdown to a page: their parser, what their sanitizers keep, and
what of a text they make links of.

GitLab's parser is comrak, with these options, which it keeps in
``lib/banzai/filter/markdown_engines/glfm_markdown.rb``; what it keeps of HTML is in
``base_sanitization_filter.rb`` and ``sanitization_filter.rb`` beside it. comrak is also a port of
GitHub's own cmark-gfm, and the list of elements is that of GitHub's html-pipeline, on which
GitLab's is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Literal

import bleach
import comrak

Host = Literal["github", "gitlab"]

#: The elements of html-pipeline's allow list, and those that GitLab adds.
_ELEMENTS = frozenset(
    """h1 h2 h3 h4 h5 h6 h7 h8 br b i strong em a pre code img tt div ins del sup sub p ol ul table
    thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt rp li tr td th s strike
    summary details span abbr section input""".split()  # noqa: SIM905
)
_ALERTS = tuple(
    f"markdown-alert markdown-alert-{kind}"
    for kind in ("note", "tip", "important", "warning", "caution")
)
#: Element and attribute -> what begins a value that is kept, of what the parsers write.
_ATTRIBUTES: dict[tuple[str, str], tuple[str, ...]] = {
    ("a", "href"): ("",),
    ("a", "class"): ("anchor",),
    ("a", "aria-label"): ("",),
    ("a", "data-heading-content"): ("",),
    ("details", "open"): ("",),
    ("div", "class"): _ALERTS,
    ("p", "class"): ("markdown-alert-title",),
    ("pre", "lang"): ("",),
    ("span", "data-escaped-char"): ("",),
    ("span", "data-math-style"): ("",),
    ("code", "data-math-style"): ("",),
    ("td", "style"): ("text-align: ",),
    ("th", "style"): ("text-align: ",),
    **{(f"h{level}", "id"): ("user-content-",) for level in range(1, 7)},
}

#: An emoji's name has a letter or a sign, apart from two. Parts of an ARN look like one, but none
#: has such a name.
_EMOJI = r"(?<![\w:]):(?:\d*[a-z_+-][a-z0-9_+-]*|100|1234):"
#: What each host makes something of outside code: mentions, issues, merge requests, snippets,
#: labels, milestones, epics, alerts, emoji; GitLab also additions and deletions in braces.
_MEANINGS: dict[Host, re.Pattern[str]] = {
    "github": re.compile(rf"(?<!\w)@\w|#\d|\bGH-\d|{_EMOJI}|https?://|\bwww\.", re.I),
    "gitlab": re.compile(
        rf"(?<!\w)@\w|[#!$&]\d|[%~][\w\"]|{_EMOJI}|https?://|\bwww\.|\bGL-\d"
        r"|\[[-+].*[-+]\]|\{[-+].*[-+]\}|\[(?:issue|vulnerability|feature_flag|epic):",
        re.I,
    ),
}


def rendered(markdown: str, host: Host) -> str:
    """Return the HTML of a comment as the host's parser makes it."""
    ours = host == "gitlab"
    return comrak.markdown_to_html(
        markdown,
        comrak.ExtensionOptions(
            alerts=True,
            autolink=True,
            footnotes=True,
            math_code=True,
            math_dollars=True,
            strikethrough=True,
            table=True,
            tasklist=True,
            header_id_prefix="user-content-",
            cjk_friendly_emphasis=ours,
            description_lists=ours,
            multiline_block_quotes=ours,
            wikilinks_title_before_pipe=ours,
        ),
        comrak.ParseOptions(
            escaped_char_spans=ours,
            relaxed_autolinks=ours,
            relaxed_tasklist_matching=ours,
            tasklist_in_table=ours,
        ),
        comrak.RenderOptions(
            escaped_char_spans=ours,
            full_info_string=True,
            github_pre_lang=True,
            # GitHub keeps the line ends of comments, though not those of files.
            hardbreaks=not ours,
            tasklist_classes=True,
            unsafe_=True,
        ),
    )


def sanitized(html: str) -> str:
    """Return HTML with what the hosts keep of it."""
    kept = bleach.clean(html, tags=_ELEMENTS, attributes=_is_kept, strip=True, strip_comments=True)
    return str(kept)


def _is_kept(element: str, attribute: str, value: str) -> bool:
    return value.startswith(_ATTRIBUTES.get((element, attribute), ("\0",)))


def removed(html: str) -> list[str]:
    """Return the tags, comments apart, that the hosts would remove or change."""
    left = iter(_Parts.of(sanitized(html)).tags)
    return [tag for tag in _Parts.of(html).tags if tag != next(left, None)]


def meanings(html: str, host: Host) -> list[str]:
    """Return what a host would make a link, a mention, a formula or a picture of."""
    parts = _Parts.of(html)
    links = [tag for tag in parts.tags if re.match(r"<(a|img|input|section)\b", tag)]
    # A heading's own anchor has no text.
    made = [tag for tag in links if 'class="anchor"' not in tag]
    made += [tag for tag in parts.tags if "data-math-style" in tag]
    return made + [text for text in parts.texts if _MEANINGS[host].search(text)]


class _Parts(HTMLParser):
    """The tags of a page, and its texts outside code."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._code = 0

    @classmethod
    def of(cls, html: str) -> _Parts:
        parts = cls()
        parts.feed(html)
        parts.close()
        return parts

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append("".join(self._start(tag, attrs)))
        self._code += tag in ("code", "pre")

    @staticmethod
    def _start(tag: str, attrs: list[tuple[str, str | None]]) -> Iterator[str]:
        yield f"<{tag}"
        for name, value in sorted(attrs):
            yield f' {name}="{value or ""}"'
        yield ">"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # A sanitizer writes `<hr />` as `<hr>`.
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"</{tag}>")
        self._code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.texts.append(data)
