"""The certificate authority of one start of a cluster.

Everything is made in memory by the process that starts the cluster. The authority's key signs three
certificates and is then dropped, so that a fourth can't be issued, not even by the cluster's hosts.
A certificate for metrics is apart, signed by itself: Dask's ports take any of the authority's.
"""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from terradask._deployments.keys import ROLES, Bundle, KeySet

#: Longest validity of the certificates.
CERTIFICATE_LIFETIME_DAYS = 30

#: Allowed difference between AWS's clock and that of a client that attaches.
CLOCK_SKEW_MINUTES = 5

# A scheduler and a worker both listen and connect; a client only connects.
_USAGES = {
    "scheduler": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    "worker": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
    "client": [ExtendedKeyUsageOID.CLIENT_AUTH],
}


def make_keys(
    cluster: str,
    run_id: str,
    *,
    lifetime_days: float = CERTIFICATE_LIFETIME_DAYS,
    clock_ahead_seconds: float = 0.0,
) -> KeySet:
    """Generate the keys of one run: valid by this machine's clock and by AWS's, which instances
    have.
    """
    here = datetime.datetime.now(datetime.UTC)
    at_aws = here - datetime.timedelta(seconds=clock_ahead_seconds)
    not_before = min(here, at_aws) - datetime.timedelta(minutes=CLOCK_SKEW_MINUTES)
    not_after = max(here, at_aws) + datetime.timedelta(
        days=min(lifetime_days, CERTIFICATE_LIFETIME_DAYS)
    )
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name(f"{cluster} {run_id}", "authority")
    authority = (
        _builder(authority_name, authority_name, authority_key, not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    bundles: dict[str, Bundle] = {}
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(f"{cluster} {run_id}", role), authority_name, key, not_before, not_after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_USAGES[role]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName(
                    [
                        x509.DNSName(f"{role}.terradask"),
                        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                    ]
                ),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                critical=False,
            )
            .sign(authority_key, hashes.SHA256())
        )
        bundles[role] = Bundle(cert=_pem(certificate), key=_key_pem(key))
    return KeySet(
        run_id,
        _pem(authority),
        bundles["scheduler"],
        bundles["worker"],
        bundles["client"],
        metrics=_metrics_bundle(f"{cluster} {run_id}", not_before, not_after),
    )


def _metrics_bundle(
    common_name: str, not_before: datetime.datetime, not_after: datetime.datetime
) -> Bundle:
    """Make the certificate that opens the page with metrics, and can sign no other."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(common_name, "metrics")
    certificate = (
        _builder(name, name, key, not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Bundle(cert=_pem(certificate), key=_key_pem(key))


def _name(common_name: str, unit: str) -> x509.Name:
    # X.520 limits common names to 64 characters.
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "terradask"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),
        ]
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    not_before: datetime.datetime,
    not_after: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
