"""The claims about AWS in code and pages: those without a source in ``docs/aws-facts.md``, the
others with theirs in ``tests/records/claims.md``.

A claim is written where it is used, in a comment, a docstring or an HTML comment of a page:
``AWS (documented): <claim>. <URL>``. `EVIDENCE` has the other kinds; ``AWS (believed, <key>):``
names an assumption that a step of ``terradask doctor --live`` checks. ``AWS (<key>)`` refers to a
claim with a key. A page's claim may be empty: it is the sentence before it. A page's sentence with
a link to AWS's own text is a documented claim as it is.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Evidence -> its meaning.
EVIDENCE = {
    "recorded": "an answer of AWS that was kept",
    "documented": "AWS's own text",
    "reported": "in public by a user of AWS",
    "believed": "without a source",
}
CODE = ("cluster", "host", "modules", "stacks", "simulator/terradask_simulator")
PAGES = ("README.md", "docs/*.md", "simulator/*.md", "simulator/docs/*.md")
#: The page of the claims itself.
PAGE = "aws-facts.md"
_SUFFIXES = {".py", ".sh", ".j2", ".service", ".toml"}
_CLAIM = re.compile(rf"AWS \(({'|'.join(EVIDENCE)})(?:, ([a-z0-9-]+))?\):\s*")
_REFERENCE = re.compile(r"AWS \(([a-z0-9]+(?:-[a-z0-9]+)+)\)")
_SOURCE = r"(?:https?://|(?:tests|simulator)/)\S*[^\s.,;:)>`]"
_SOURCES = re.compile(rf"\(?<?{_SOURCE}(?:[,;]?\s+(?:and\s+)?{_SOURCE})*")
_HTML = re.compile(r"<!--\s*(AWS \(.*?)\s*-->", re.DOTALL)
#: Subject -> its words in a claim or a source, in the page's order.
_SUBJECTS = {
    "S3": r"\bS3\b(?! Files)|AmazonS3/|Mountpoint",
    "Auto Scaling": r"Auto Scaling|/autoscaling/",
    "Instance metadata": r"[Mm]etadata service|\bIMDS|instance-?metadata|instancedata",
    "Spot": r"\bSpot\b|\bspot\b",
    "Networks": r"\b[Vv][Pp][Cc]\b|[Ss]ecurity group|[Ss]ubnet|NAT gateway|PrivateLink|Route 53",
    "Systems Manager": r"Systems Manager|Session Manager|Parameter Store|/systems-manager/",
    "Service Quotas": r"Service Quotas|-quotas?\b|[Qq]uota code",
    "EC2": r"\bEC2\b|\bEBS\b|/(AWS)?[Ee][Cc]2/|/ebs/|\bNVMe\b|[Ll]aunch template",
    "IAM": r"\bIAM\b|/IAM/|\b[Pp]olic(y|ies)\b",
    "STS": r"\bSTS\b|/STS/",
    "Secrets Manager": r"Secrets Manager|/secretsmanager/",
    "CloudWatch": r"CloudWatch|\bLogs\b",
    "KMS": r"\bKMS\b|/kms/",
    "SNS": r"\bSNS\b|/sns/",
    "ECR": r"\bECR\b",
    "File systems": r"\bEFS\b|\bFSx\b|S3 Files|Lustre",
    "Prices": r"[Pp]rices?\b|/pricing|[Bb]ill|\bcharges?\b",
    "Images": r"Amazon Linux|al2023|\bDLAMI\b|/dlami/",
}
_GENERAL = "AWS in general"

_SERVICE = (
    r"(?:(?:AWS|Amazon) )?(?:AWS|Amazon|EC2|S3|IAM|STS|EBS|KMS|SNS|ECR|EFS|FSx|Auto Scaling"
    r"|CloudWatch|Secrets Manager|Session Manager|Service Quotas|Parameter Store|PrivateLink)"
)
_VERB = (
    r"(?:allows|refuses|keeps|removes|bills|charges|limits|accepts|requires|returns|answers|counts"
    r"|lists|ends|launches|deletes|replaces|reserves|evaluates|sends|costs|retries|throttles"
    r"|expires|propagates|ignores|supports|recommends)"
)
_AUXILIARY = r"(?:(?:only|also|never|then|itself|always)\s+)*"
_CAN = r"(?:(?:doesn't|can't|may|can|must)\s+)"
_BASE = r"(?:allow|refuse|keep|remove|bill|charge|limit|require|launch|delete|replace|expire)"
# Not of what may happen, nor of the one to which it happened.
_BEFORE = (
    *("AWS", "Amazon", "as", "before", "embedded", "how", "How", "if", "If", "once", "or", "that"),
    *("until", "what", "What", "whatever", "when", "When", "whether", "Whether", "which", "while"),
    *("While", "unless", "why"),
)
_NOT = "".join(rf"(?<!\b{word}\s)" for word in _BEFORE)
#: What looks like a claim: a service does something.
CLAIM = re.compile(
    rf"{_NOT}\b{_SERVICE}(?:'s [\w ]{{1,20}})?\s+{_AUXILIARY}(?:{_VERB}|{_CAN}{_BASE})\b"
)
#: A link to AWS's own text.
LINK = re.compile(r"https://(?:docs\.aws\.|repost\.aws/|aws\.amazon\.)[^\s)>`]*[^\s)>`.,:;]")
_NOT_PROSE = re.compile(
    r"^ *```.*?^ *```|<!-- generated: .*?<!-- end of generated -->", re.MULTILINE | re.DOTALL
)


class Fact(NamedTuple):
    """A claim about AWS and the place where it is written."""

    claim: str
    evidence: str
    key: str | None
    sources: tuple[str, ...]
    path: str
    #: Of the constant, function, class or heading; empty at the top of a file.
    name: str

    @property
    def subject(self) -> str:
        """The service that the claim is about."""
        for text in (self.claim, " ".join(self.sources)):
            found = {
                name: match.start()
                for name, words in _SUBJECTS.items()
                if (match := re.search(words, text))
            }
            if found:
                return min(found, key=found.__getitem__)
        return _GENERAL


class Passage(NamedTuple):
    """A paragraph of comments, of a docstring or of a page."""

    text: str
    name: str
    #: The sentence before it, which an empty claim repeats.
    before: str = ""
    line: int = 0


def texts(root: Path = ROOT) -> dict[str, str]:
    """Return the text of every file that may have claims, by its path."""
    found = [path for folder in CODE for path in (root / folder).rglob("*")]
    wanted = [
        path
        for path in found
        if path.suffix in _SUFFIXES
        and not {"tests", "node_modules"} & {*path.relative_to(root).parts}
    ]
    pages = [path for pattern in PAGES for path in root.glob(pattern) if path.name != PAGE]
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted([*wanted, *pages])
    }


@cache
def passages(path: str, text: str) -> tuple[Passage, ...]:
    """Return the paragraphs of a file in which claims may be."""
    if path.endswith(".md"):
        return (*_of_page(text),)
    return (*(_of_python(text) if path.endswith(".py") else _of_comments(text)),)


def facts(files: Mapping[str, str]) -> list[Fact]:
    """Return the claims of files."""
    return [
        fact
        for path, text in files.items()
        if path.endswith(".md") or "AWS (" in text
        for passage in passages(path, text)
        for fact in _claims(path, passage)
    ]


def references(files: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the references to claims with a key: key, path and name of the place."""
    return [
        (key, path, passage.name)
        for path, text in files.items()
        if "AWS (" in text
        for passage in passages(path, text)
        for key in _REFERENCE.findall(passage.text)
    ]


def _claims(path: str, passage: Passage) -> Iterator[Fact]:
    starts = [*_CLAIM.finditer(passage.text)]
    ends = [*(one.start() for one in starts[1:]), len(passage.text)]
    for start, end in zip(starts, ends, strict=False):
        body = passage.text[start.end() : end].strip()
        evidence, key = start[1], start[2]
        found = None if evidence == "believed" else _SOURCES.search(body)
        claim = body[: found.start()] if found else body
        sources = re.findall(_SOURCE, found[0]) if found else ()
        yield Fact(
            _sentence(claim.strip() or passage.before),
            evidence,
            key,
            (*sources,),
            path,
            passage.name,
        )


def _sentence(text: str) -> str:
    return text.strip().rstrip(".:(,;").strip()


# ---- paragraphs of files -------------------------------------------------------------------------


def _of_python(text: str) -> Iterator[Passage]:
    tree = ast.parse(text)
    spans = [*_spans(tree, "")]
    for group in _comment_groups(text):
        last = group[-1]
        yield Passage(_joined(one.text for one in group), _name_at(last.line, spans))
    for node, name in _documented(tree, ""):
        for paragraph in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
            yield Passage(_joined([paragraph]), name)


class _Comment(NamedTuple):
    #: The line that it is about: its own behind code, else the next.
    line: int
    text: str


def _comment_groups(text: str) -> Iterator[list[_Comment]]:
    """Yield successive comments without code between them."""
    group: list[_Comment] = []
    row = column = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = not token.line[: token.start[1]].strip()
        content = token.string.lstrip("#:").strip()
        if group and not (alone and token.start == (row + 1, column) and content):
            yield group
            group = []
        (row, column) = token.start if alone else (-1, 0)
        group.append(_Comment(token.start[0] + alone, content))
    if group:
        yield group


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    return (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """Yield the lines of named statements, outer ones first."""
    for child in _statements(node):
        name = ""
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = child.name
        elif isinstance(node, ast.Module | ast.ClassDef) and isinstance(
            child, ast.Assign | ast.AnnAssign
        ):
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            name = ast.unparse(target)
        if name:
            decorators = getattr(child, "decorator_list", [])
            first = min([child.lineno, *(one.lineno for one in decorators)])  # type: ignore[attr-defined]
            yield first, child.end_lineno, f"{prefix}{name}"  # type: ignore[attr-defined]
        yield from _spans(child, f"{prefix}{name}." if name else prefix)


def _name_at(line: int, spans: Iterable[tuple[int, int, str]]) -> str:
    inside = [name for first, last, name in spans if first <= line <= last]
    return inside[-1] if inside else ""


def _documented(node: ast.AST, prefix: str) -> Iterator[tuple[ast.Module, str]]:
    if isinstance(node, ast.Module):
        yield node, ""
    for child in _statements(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child, f"{prefix}{child.name}"  # type: ignore[misc]
            yield from _documented(child, f"{prefix}{child.name}.")
        else:
            yield from _documented(child, prefix)


def _of_comments(text: str) -> Iterator[Passage]:
    """Yield the comments of a file whose comments begin with ``#``."""
    group: list[str] = []
    for line in [*text.splitlines(), ""]:
        comment = re.fullmatch(r"\s*#+\s*(.+)", line)
        if comment:
            group.append(comment[1])
        elif group:
            yield Passage(_joined(group), "")
            group = []


class Sentence(NamedTuple):
    """A sentence of a page, without links."""

    text: str
    #: With its links.
    written: str
    #: The paragraph, list item or table row, with the comments behind the paragraph or table.
    block: str
    heading: str


def sentences(page: str) -> Iterator[Sentence]:
    """Yield a page's sentences."""
    page = _NOT_PROSE.sub("", page)
    # A comment belongs to what is before it.
    page = re.sub(r"\n+( *<!-- (?:AWS \(|no claim))", r"\n\1", page)
    heading = ""
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", page):
        if found := re.findall(r"^#+ (.+)$", block, re.MULTILINE):
            heading = found[-1]
        for written in re.split(r"(?<=[.:;])\s|\n\||<!--", block):
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", written)
            yield Sentence(_joined([plain]), written, block, heading)


def _of_page(text: str) -> Iterator[Passage]:
    for one in sentences(text):
        if CLAIM.search(one.text) and (link := LINK.search(one.written)):
            yield Passage(f"AWS (documented): {one.text.lstrip('-* ')} {link[0]}", one.heading)
    for match in _HTML.finditer(text):
        before = text[: match.start()]
        headings = re.findall(r"^#+ (.+)$", before, re.MULTILINE)
        yield Passage(_joined([match[1]]), headings[-1] if headings else "", last_sentence(before))


def last_sentence(text: str) -> str:
    """Return a page's last sentence before other comments, without links."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).rstrip()
    paragraph = re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) |\n\|", text)[-1]
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", _joined([paragraph])).lstrip("-* ")
    return re.split(r"(?<=[.:;)]) (?=[A-Z`*])", plain)[-1]


def _joined(parts: Iterable[str]) -> str:
    return " ".join(" ".join(parts).split())


# ---- the page ------------------------------------------------------------------------------------


def assumptions_markdown(files: Mapping[str, str], steps: Mapping[str, str]) -> str:
    """Return the number of claims by evidence, and the table of those without a source.

    Parameters
    ----------
    files
        The texts, by path.
    steps
        Key of an assumption -> the step of ``doctor --live`` that checks it.
    """
    rows = _rows(files, "docs")
    lines = ["| evidence | | claims |", "| --- | --- | --- |"]
    for kind, meaning in EVIDENCE.items():
        lines.append(f"| {kind} | {meaning} | {sum(one.evidence == kind for one in rows)} |")
    lines += ["", "## Believed", ""]
    lines += ["| claim | checked by the step | in |", "| --- | --- | --- |"]
    believed = [fact for fact in rows if fact.evidence == "believed"]
    for fact in sorted(believed, key=lambda one: (one.key not in steps, one.claim)):
        step = f"`{steps[fact.key]}`" if fact.key in steps else ""
        shown = f"{_cell(fact.claim)} (`{fact.key}`)" if fact.key else _cell(fact.claim)
        lines.append(f"| {shown} | {step} | {', '.join(rows[fact])} |")
    return "\n".join(lines)


def sources_markdown(files: Mapping[str, str], steps: Mapping[str, str]) -> str:
    """Return the tables of the claims with a source, by subject."""
    rows = _rows(files, "tests/records")
    lines = list[str]()
    for subject in [*_SUBJECTS, _GENERAL]:
        mine = [one for one in rows if one.subject == subject and one.evidence != "believed"]
        if mine:
            lines += ["", f"## {subject}", "", "| claim | source | in |", "| --- | --- | --- |"]
            for fact in sorted(mine, key=lambda one: (one.path, one.claim)):
                step = f", step `{steps[fact.key]}`" if fact.key in steps else ""
                source = f"{_source(fact, 'tests/records')}{step}"
                lines.append(f"| {_cell(fact.claim)} | {source} | {', '.join(rows[fact])} |")
    return "\n".join(lines)


def _rows(files: Mapping[str, str], folder: str) -> dict[Fact, list[str]]:
    """Return each claim once, with links from a folder to its places."""
    places: dict[str, list[str]] = {}
    for key, path, name in references(files):
        places.setdefault(key, []).append(_place(path, name, folder))
    merged: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts(files):
        merged.setdefault((fact.claim, fact.evidence), []).append(fact)
    return {
        of[0]: [
            *dict.fromkeys(
                [_place(o.path, o.name, folder) for o in of] + places.get(of[0].key or "", [])
            )
        ]
        for of in merged.values()
    }


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("``", "`").replace("<", "&lt;")


def _link(path: str, folder: str) -> str:
    return path if "://" in path else os.path.relpath(path, folder)


def _place(path: str, name: str, folder: str) -> str:
    link = _link(path, folder)
    if path.endswith(".md"):
        anchor = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
        return f"[{name or path}]({link}{'#' + anchor if name else ''})"
    short = path.rsplit("/", 1)[-1]
    return f"[{short}]({link})" + (f" `{name}`" if name else "")


def _source(fact: Fact, folder: str) -> str:
    links = [
        _link(one.partition("::")[0] if "://" not in one else one, folder) for one in fact.sources
    ]
    numbers = [fact.evidence, *(str(n) for n in range(2, len(links) + 1))]
    return ", ".join(f"[{word}]({link})" for word, link in zip(numbers, links, strict=True))
