"""Sentences that claim something about AWS and have no source in the form of docs/aws_facts.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import ModuleType

#: Written behind a sentence that only looks like a claim. Rare.
NO_CLAIM = "no claim about AWS"
_SOURCED = re.compile(r"AWS \([a-z]")
#: A row of the numbered tables of faults and threats: what may happen, and what is done then.
_ROW = re.compile(r"^\| *\d+ \|.*$", re.MULTILINE)


def of_page(collector: ModuleType, text: str) -> Iterator[str]:
    """Yield a page's sentences without a source in their paragraph, list item or table."""
    for one in collector.sentences(_ROW.sub("", text)):
        found = collector.CLAIM.search(one.text.lstrip("| "))
        if found is None or collector.LINK.search(one.written):
            continue
        # A row that begins with it is about what happens then.
        is_case = " |" in one.text and found.start() == 0
        if not (is_case or _SOURCED.search(one.block) or NO_CLAIM in one.block):
            yield one.text


def of_code(collector: ModuleType, files: Mapping[str, str]) -> Iterator[str]:
    """Yield the comments and docstrings of files with a link or a claim, but not the form."""
    for path, text in files.items():
        for passage in collector.passages(path, text):
            if _SOURCED.search(passage.text) or NO_CLAIM in passage.text:
                continue
            if collector.LINK.search(passage.text) or collector.CLAIM.search(passage.text):
                yield f"{path} {passage.name}: {passage.text}"
