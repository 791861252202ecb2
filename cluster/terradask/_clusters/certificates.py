"""Generate the certificate authority and the certificates of one run.

The process that starts the cluster generates them in memory. The authority's key signs three
certificates and is then dropped, so that no process, not even a host of the cluster, can issue
a fourth.
The certificate for metrics is self-signed: Dask's ports accept every certificate of the authority.
"""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from terradask._observe.keys import ROLES, Bundle, KeySet

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
    use.
    """
    here = datetime.datetime.now(datetime.UTC)
    at_aws = here - datetime.timedelta(seconds=clock_ahead_seconds)
    not_before = min(here, at_aws) - datetime.timedelta(minutes=CLOCK_SKEW_MINUTES)
    not_after = max(here, at_aws) + datetime.timedelta(
        days=min(lifetime_days, CERTIFICATE_LIFETIME_DAYS)
    )
    span = (not_before, not_after)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name(f"{cluster} {run_id}", "authority")
    public = authority_key.public_key()
    own_id = x509.SubjectKeyIdentifier.from_public_key(public)
    authority = _sign(authority_name, authority_name, public, authority_key, span, own_id, ca=True)
    bundles: dict[str, Bundle] = {}
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.DNSName(f"{role}.terradask"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        certificate = _sign(
            _name(f"{cluster} {run_id}", role),
            authority_name,
            key.public_key(),
            authority_key,
            span,
            x509.ExtendedKeyUsage(_USAGES[role]),
            x509.SubjectAlternativeName(names),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(public),
        )
        bundles[role] = Bundle(cert=_pem(certificate), key=_key_pem(key))
    # Gives access to the metrics page only, and can't sign other certificates.
    key, name = ec.generate_private_key(ec.SECP256R1()), _name(f"{cluster} {run_id}", "metrics")
    usage = x509.ExtendedKeyUsage(_USAGES["client"])
    metrics = _sign(name, name, key.public_key(), key, span, usage)
    return KeySet(
        run_id,
        _pem(authority),
        bundles["scheduler"],
        bundles["worker"],
        bundles["client"],
        metrics=Bundle(cert=_pem(metrics), key=_key_pem(key)),
    )


def _name(common_name: str, unit: str) -> x509.Name:
    # X.520 limits common names to 64 characters.
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "terradask"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),
        ]
    )


def _sign(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    span: tuple[datetime.datetime, datetime.datetime],
    *extensions: x509.ExtensionType,
    ca: bool = False,
) -> x509.Certificate:
    """Return a certificate with non-critical extensions: with `ca` for an authority, which only
    signs certificates, else for one that signs none.
    """
    usage = x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.BasicConstraints(ca, path_length=0 if ca else None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
