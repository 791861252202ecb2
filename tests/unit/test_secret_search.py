"""The search for secrets finds them however they are packed, and nothing that only looks alike."""

from __future__ import annotations

import base64
import gzip
import io
import json
import urllib.parse
import zipfile
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from terradask._clusters.certificates import make_keys

from ..simulator.secret_search import Secrets

TOKEN = "correct/horse+battery staple"
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
OLDER = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.TraditionalOpenSSL,
    serialization.NoEncryption(),
)
DER = KEY.private_bytes(
    serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


def zipped(content: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tfplan", content)
    return held.getvalue()


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    found = Secrets({"token": TOKEN})
    found.add_key("key", KEY)
    return found


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "in the middle": lambda content: b"x" * 1000 + content + b"y",
    "in base64": base64.b64encode,
    "in base64, behind one letter": lambda content: base64.b64encode(b"x" + content + b"zz"),
    "in base64, behind two": lambda content: base64.b64encode(b"xy" + content + b"zz"),
    "in JSON": lambda content: json.dumps({"x": content.decode()}).encode(),
    "compressed": gzip.compress,
    "in an archive": zipped,
}


@pytest.mark.parametrize("packed", PACKED)
def test_a_text_is_found(secrets: Secrets, packed: str) -> None:
    assert {name for _, name in secrets.find("x", PACKED[packed](TOKEN.encode()))} == {"token"}


@pytest.mark.parametrize(
    "packed", ["as it is", "in the middle", "in JSON", "compressed", "in an archive"]
)
@pytest.mark.parametrize("pem", [PEM, OLDER], ids=["PKCS8", "older"])
def test_a_key_is_found(secrets: Secrets, pem: bytes, packed: str) -> None:
    assert {name for _, name in secrets.find("x", PACKED[packed](pem))} == {"key"}


@pytest.mark.parametrize(
    "content",
    [
        DER,
        DER.hex().encode(),
        base64.b64encode(DER),
        urllib.parse.quote(TOKEN).encode(),
        PEM.splitlines()[1],
        PEM.splitlines()[2],
    ],
    ids=["DER", "hexadecimal", "base64", "in an address", "its first line", "its second line"],
)
def test_other_forms_are_found(secrets: Secrets, content: bytes) -> None:
    assert len(secrets.find("x", content)) == 1


def test_what_everybody_may_have_is_not_found(secrets: Secrets) -> None:
    public = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    keys = make_keys("etl", "r1")
    for content in (
        public,
        keys.ca.encode(),
        keys.worker.cert.encode(),
        keys.worker.key.encode(),
        b"correct/horse",
        b"",
    ):
        assert secrets.find("x", content) == []
    certificate = x509.load_pem_x509_certificate(keys.worker.cert.encode())
    own = Secrets({})
    own.add_key("worker", serialization.load_pem_private_key(keys.worker.key.encode(), None))
    assert (
        own.find(
            "x", certificate.public_bytes(serialization.Encoding.DER) + keys.worker.cert.encode()
        )
        == []
    )
    assert own.find("x", keys.worker.key.encode()) == [("x", "worker")]
