"""Certificate authorities of tests, with the secret that hosts get their keys from."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.security import Security

RUN_ID = "20261120T051500Z-1f3a9c"

A_DAY = datetime.timedelta(days=1)


@dataclass
class Authority:
    """A certificate authority of a test."""

    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def __post_init__(self) -> None:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.cert = (
            self._builder(name, name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.pem = self.cert.public_bytes(serialization.Encoding.PEM).decode()

    def _builder(
        self,
        subject: x509.Name,
        issuer: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        life: datetime.timedelta = A_DAY,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + life)
        )

    def bundle(self, role: str, life: datetime.timedelta = A_DAY) -> dict[str, str]:
        """A certificate of a role with its key, by default for a day from now; a `life` below zero
        is over.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
                x509.NameAttribute(NameOID.COMMON_NAME, "test"),
            ]
        )
        cert = self._builder(subject, self.cert.subject, key, life).sign(self.key, hashes.SHA256())
        return {
            "cert": cert.public_bytes(serialization.Encoding.PEM).decode(),
            "key": key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        }

    def secret(self, run_id: str = RUN_ID) -> dict[str, Any]:
        roles = {role: self.bundle(role) for role in ("scheduler", "worker", "client")}
        return {"format": 1, "run_id": run_id, "ca": self.pem, **roles}


def client_security(secret: dict[str, Any]) -> Security:
    return Security(
        require_encryption=True,
        tls_ca_file=secret["ca"],
        tls_client_cert=secret["client"]["cert"],
        tls_client_key=secret["client"]["key"],
    )
