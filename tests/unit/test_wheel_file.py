"""Wheels that terradask writes: their bytes are part of checksums in plans and locks."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest

from terradask_stacks.wheel_file import write_wheel

ABOUT = "acme-1.0.dist-info"
FILES = {
    "acme/b.py": b"x = 1\n" * 50,
    f"{ABOUT}/WHEEL": b"Wheel-Version: 1.0\n",
    "Z.py": b"",
    f"{ABOUT}/METADATA": b"Name: acme\n",
}
#: The SHA-256 of the wheel, not compressed.
STORED = "95ea75ee41ce33a1d27a0915df03218b6b4498f3c4f233d85a606790afac8f19"
RECORD = f"""\
Z.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0
{ABOUT}/METADATA,sha256=n-LTOx2XTUofbhX1z9jPIHfiyGWyfL1jQm0LqnUVUMA,11
{ABOUT}/WHEEL,sha256=hPnzolO11CFKQQfo-cfRSowPfsQIecdrr39HeOvVHcE,19
acme/b.py,sha256=Y9gjeyEHj9nAfOsffGK0q5UNX2gpD88DuBN_3_nWCrs,300
{ABOUT}/RECORD,,
"""


def test_the_bytes_without_compression() -> None:
    content = write_wheel(FILES, compression=zipfile.ZIP_STORED, mode=0o100644)
    assert hashlib.sha256(content).hexdigest() == STORED
    assert write_wheel(dict(reversed(FILES.items())), compression=0, mode=0o100644) == content


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_order_times_and_record(compression: int) -> None:
    """Compressed bytes differ between builds of zlib, so their contents are compared."""
    with zipfile.ZipFile(io.BytesIO(write_wheel(FILES, compression=compression))) as wheel:
        members = wheel.infolist()
        assert wheel.testzip() is None
        assert wheel.read(f"{ABOUT}/RECORD").decode() == RECORD
    assert [each.filename for each in members] == [*sorted(FILES), f"{ABOUT}/RECORD"]
    shapes = {(e.date_time, e.compress_type, e.external_attr, e.create_system) for e in members}
    assert shapes == {((1980, 1, 1, 0, 0, 0), compression, 0o644 << 16, 3)}
