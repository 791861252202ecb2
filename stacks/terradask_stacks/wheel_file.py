"""Write wheels: the same bytes from the same files."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from typing import Any

#: The first day that a zip archive can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def write_wheel(
    files: Mapping[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED, mode: int = 0o644
) -> bytes:
    """Return a wheel of these files, ``.dist-info`` among them, with their RECORD.

    Order, time and permissions (Unix's `mode`) are fixed: equal files give equal bytes, but with
    zipfile's default `compression` they differ between builds of zlib.
    """
    about = next(path.partition("/")[0] for path in files if path.endswith(".dist-info/METADATA"))
    record = f"{about}/RECORD"
    lines = [f"{path},{_digest(content)},{len(content)}" for path, content in sorted(files.items())]
    every = {**files, record: "\n".join([*lines, f"{record},,", ""]).encode()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        # RECORD comes last, as installers expect.
        for path in [*sorted(files), record]:
            member = zipfile.ZipInfo(path, _EPOCH)
            member.create_system = _UNIX
            member.external_attr = mode << 16
            archive.writestr(member, every[path], compression)
    return packed.getvalue()


def pure_wheel(
    name: str, version: str, files: Mapping[str, bytes], metadata: str = "", **options: Any
) -> tuple[str, bytes]:
    """Return the file name and the content of a wheel of pure Python with these files; `metadata`
    are further lines of METADATA, `options` those of `write_wheel`.
    """
    stem = f"{name.replace('-', '_')}-{version}"
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: terradask\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    own = {f"{stem}.dist-info/{file}": text.encode() for file, text in about.items()}
    return f"{stem}-py3-none-any.whl", write_wheel({**files, **own}, **options)


def _digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"
