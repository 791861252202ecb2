"""What the AWS provider says of its resource types, cut down to the types that terradask uses.

Terraform asks for it at each start of the provider. It describes 2,000 types in 5 MB, which takes
Terraform and the provider most of the processor time of a command; terradask uses some forty.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_SOURCES = [Path(__file__).parents[1] / name for name in ("modules", "stacks")]

# Of GetProviderSchema.Response and of an entry of its maps:
# https://github.com/hashicorp/terraform/blob/main/docs/plugin-protocol/tfplugin5.8.proto
_RESOURCES, _DATA_SOURCES = 2, 3
_KEY = 1
_LENGTH_DELIMITED = 2


@dataclass(frozen=True)
class Types:
    """Names of Terraform's types.

    Parameters
    ----------
    resources, data_sources
        As in ``aws_vpc``.
    """

    resources: Collection[str]
    data_sources: Collection[str]


def types_in_use() -> Types:
    """Return the types whose bindings terradask imports."""
    imports = (
        node
        for folder in _SOURCES
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "terradask_modules.aws"
    )
    # Of a class of the framework's own there is no such type.
    modules = {
        re.sub(r"(?<!^)(?=[A-Z])", "_", one.name).lower().removesuffix("_a")
        for node in imports
        for one in node.names
    }
    data = "data_aws_"
    return Types(
        {f"aws_{name}" for name in modules if not name.startswith(data)},
        {f"aws_{name.removeprefix(data)}" for name in modules if name.startswith(data)},
    )


def cut_down(schema: bytes, types: Types) -> bytes:
    """Leave other types out of an encoded ``GetProviderSchema.Response``; all else stays, byte for
    byte.

    Parameters
    ----------
    schema
        What the provider answered.
    types
        The types to keep. Terraform refuses a configuration or a state with any other.
    """
    wanted = {_RESOURCES: types.resources, _DATA_SOURCES: types.data_sources}
    kept = [
        whole
        for number, whole, content in _fields(schema)
        if number not in wanted or _key(content) in wanted[number]
    ]
    return b"".join(kept)


def _key(entry: bytes) -> str:
    return next(content.decode() for number, _, content in _fields(entry) if number == _KEY)


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield each field's number, encoding and content:
    https://protobuf.dev/programming-guides/encoding/.
    """
    start = 0
    while start < len(message):
        tag, at = _varint(message, start)
        if tag & 7 != _LENGTH_DELIMITED:
            raise ValueError(
                f"a field of wire type {tag & 7} at {start}; a schema has messages and texts alone"
            )
        length, at = _varint(message, at)
        yield tag >> 3, message[start : at + length], message[at : at + length]
        start = at + length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
