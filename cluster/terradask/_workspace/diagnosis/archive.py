"""Write the archive: a zip with an index that a person reads first."""

from __future__ import annotations

import datetime
import errno
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from terradask._plans.markdown import escaped, row, table
from terradask._workspace.diagnosis.collect import NOTHING, ReadPart
from terradask._workspace.diagnosis.parts import STATUS
from terradask._workspace.diagnosis.redaction import Redaction
from terradask._workspace.missing_rights import MissingRight
from terradask.errors import InvalidInput
from terradask_host.words import cluster_word

INDEX = "README.md"
#: Most bytes of a file. More are cut: of a log the beginning, else the end.
MOST_BYTES = 2**20
_LONGEST_REASON = 600

_ABOUT = """
Masked as (sensitive): secrets by their names and forms, values of environment variables, user data,
and credentials in addresses. Of Terraform's states there are addresses, types and ids alone. No
secret of the cluster was read. A secret that your programs print, and that looks like any word, can
still be in the logs: look there before you send this.
"""


_RIGHTS = "AWS refused these to the caller. Those who manage the account can allow them.\n"


@dataclass(frozen=True)
class File:
    """A file of the archive."""

    name: str
    title: str
    content: bytes
    #: Whether a part of it was left out.
    is_cut: bool = False


@dataclass(frozen=True)
class Archive:
    """All files, and the reasons for the missing ones."""

    name: str
    verdict: tuple[str, ...]
    files: tuple[File, ...]
    #: File -> its title, and why it isn't there.
    missing: Mapping[str, tuple[str, str]]
    #: Rights that the caller lacks.
    rights: tuple[MissingRight, ...] = ()

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Why parts weren't read -> their files; without those of which there is nothing."""
        found: dict[str, list[str]] = {}
        for name, (_, why) in self.missing.items():
            if why != NOTHING:
                found.setdefault(why, []).append(name)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the contents for ``--json`` output."""
        return {
            "cluster": self.name,
            "verdict": list(self.verdict),
            "files": [
                {"file": one.name, "what": one.title, "bytes": len(one.content), "cut": one.is_cut}
                for one in self.files
            ],
            "missing": [
                {"file": name, "what": title, "why": why}
                for name, (title, why) in self.missing.items()
            ],
            "missing_rights": [one.as_dict() for one in self.rights],
        }

    def to_bytes(self, at: datetime.datetime) -> bytes:
        """Return the zip."""
        folder, held = f"terradask-debug-{self.name}", io.BytesIO()
        index = File(INDEX, "", _index(self, at).encode())
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
            for one in (index, *self.files):
                entry = zipfile.ZipInfo(f"{folder}/{one.name}", at.timetuple()[:6])
                entry.external_attr, entry.compress_type = 0o600 << 16, zipfile.ZIP_DEFLATED
                packed.writestr(entry, one.content)
        return held.getvalue()


def archive_of(
    name: str,
    parts: Sequence[ReadPart],
    redaction: Redaction,
    rights: Iterable[MissingRight] = (),
) -> Archive:
    """Return the archive of parts that were read, without secrets; and the caller's missing
    `rights`.
    """
    files, missing = [], {}
    verdict: tuple[str, ...] = ()
    for each in parts:
        part = each.part
        if each.why is not None:
            missing[part.file] = part.title, redaction.text(each.why)[:_LONGEST_REASON]
            content = None
        elif isinstance(each.content, str):
            content = _masked(each.content, redaction, is_log=part.is_log)
        else:
            document = redaction.document(each.content)
            content = json.dumps(document, indent=1, default=str)
        if part.file == STATUS:
            verdict = _verdict(name, missing[STATUS][1] if content is None else json.loads(content))
        if content is not None:
            files.append(_file(part.file, part.title, content, is_log=part.is_log))
    shown = tuple(
        replace(one, resources=tuple(map(redaction.text, one.resources))) for one in rights
    )
    return Archive(name, verdict, tuple(files), missing, shown)


def check_path(path: Path) -> None:
    """Check before the work that there is no such file, and that its folder can be written.

    Raises `InvalidInput`.
    """
    for is_so, why in (
        (path.is_symlink() or path.exists(), errno.EEXIST),
        (not path.parent.is_dir(), errno.ENOENT),
        (not os.access(path.parent, os.W_OK), errno.EACCES),
    ):
        if is_so:
            raise _not_there(path, os.strerror(why))


def write(path: Path, content: bytes) -> None:
    """Write a new file, for this user alone, or nothing. Raises `InvalidInput` if there is one, or
    no disk space.
    """
    try:
        # A link counts as a file that exists.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _not_there(path, str(error.strerror)) from error


def _not_there(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        "The archive can't be written there.",
        given=f"{path}: {why}",
        allowed="the path of a new file, in a folder with space that this user may write",
        advice="name another path with --output",
    )


def _masked(text: str, redaction: Redaction, *, is_log: bool) -> str:
    # Twice what is kept: masking takes time, and no cut may go through a secret.
    size = 2 * MOST_BYTES
    return redaction.text(text[-size:] if is_log else text[:size])


def _file(name: str, title: str, text: str, *, is_log: bool) -> File:
    content = text.encode()
    if len(content) <= MOST_BYTES:
        return File(name, title, content)
    kept = content[-MOST_BYTES:] if is_log else content[:MOST_BYTES]
    return File(name, title, kept.decode(errors="ignore").encode(), is_cut=True)


def _verdict(name: str, status: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the first lines of a status, or the reason why there is none."""
    if isinstance(status, str):
        return (f"{name}: its status could not be read: {status}",)
    verdict = status.get("verdict")
    if isinstance(verdict, Mapping):
        command = verdict.get("command")
        return (f"{name}: {verdict.get('text')}", *([f"next: {command}"] if command else []))
    return f"{name}: {cluster_word(str(status.get('state')))}", *status.get("problems", ())


def _index(archive: Archive, at: datetime.datetime) -> str:
    lines = "".join(f"- {_shown(line)}\n" for line in archive.verdict)
    files = [row([_shown(one.name), _shown(one.title), _size(one)]) for one in archive.files]
    sections = ["## Files\n", table(["File", "What", "Bytes"], files)]
    if archive.reasons:
        sections.append("## Not read\n")
        sections += [
            f"- {', '.join(map(_shown, names))}: {_shown(why)}"
            for why, names in archive.reasons.items()
        ]
        sections.append("")
    if archive.rights:
        sections += [
            "## Missing rights\n",
            _RIGHTS,
            *(f"- {_shown(str(one))}" for one in archive.rights),
            "",
        ]
    nothing = [name for name, (_, why) in archive.missing.items() if why == NOTHING]
    if nothing:
        sections.append(f"There is no {', '.join(map(_shown, nothing))}.\n")
    return (
        f"# terradask debug: {_shown(archive.name)}\n\n{lines}\n"
        f"Made at {at:%Y-%m-%d %H:%M} UTC.\n\n"
        + "\n".join(sections)
        + f"\n## Before you send it\n{_ABOUT}"
    )


def _shown(text: str) -> str:
    # To be read as it is, too: quotes have no entity.
    return escaped(text.replace("`", "'"))


def _size(one: File) -> str:
    return f"{len(one.content):,}" + (" (cut)" if one.is_cut else "")
