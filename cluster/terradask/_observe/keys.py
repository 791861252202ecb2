"""``KeySet``: the keys of one run, as stored in the cluster's secret, and the access to them.
`certificates` generates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from terradask._aws.answers import unless
from terradask._aws.session import Aws
from terradask._observe.documents import Descriptor, reading
from terradask.errors import AccessDenied, ClusterPrivate
from terradask_host.document_fields import Record
from terradask_modules.secret_policy import is_named

if TYPE_CHECKING:
    from distributed.security import Security


Role = Literal["scheduler", "worker", "client"]

ROLES: tuple[Role, ...] = ("scheduler", "worker", "client")


@dataclass(frozen=True, repr=False)
class Bundle(Record):
    """A certificate and its key, both PEM."""

    cert: str
    key: str


@dataclass(frozen=True, repr=False)
class KeySet(Record):
    """The keys of one run: the authority's certificate, a bundle for each role, the digests of the
    hosts' documents, and credentials of package indexes and channels.

    The repr shows no key material.
    """

    run_id: str
    ca: str
    scheduler: Bundle
    worker: Bundle
    client: Bundle
    #: Empty if an older terradask started the run.
    sha256: Mapping[str, str] = field(default_factory=dict)
    #: Credentials of package indexes and of conda's channels, by URL.
    indexes: Mapping[str, str] = field(default_factory=dict)
    #: For the scheduler's metrics page only; None if an older terradask started the run.
    metrics: Bundle | None = None

    def __repr__(self) -> str:
        return f"KeySet(run_id={self.run_id!r})"

    def to_document(self) -> dict[str, Any]:
        """Return the document for the cluster's secret."""
        return {"format": 1, **asdict(self)}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> KeySet:
        """Read the document of the cluster's secret. Raises `DocumentFormat`."""
        with reading(
            "The cluster's secret", "stop the cluster and start it again: a start writes keys"
        ):
            return cls.read(document)

    def client_security(self) -> Security:
        """Return a Dask client's security for this cluster: mutual TLS, at least version 1.3."""
        import ssl

        from distributed.security import Security

        return Security(
            require_encryption=True,
            tls_ca_file=self.ca,
            tls_client_cert=self.client.cert,
            tls_client_key=self.client.key,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            # Override the caller's Dask configuration.
            tls_max_version=None,
            tls_ciphers=None,
        )


# ---- access to a private cluster's keys, which AWS decides about ---------------------------------


_NO_VALUE = "ResourceNotFoundException"


@contextmanager
def translated_key_errors(aws: Aws, descriptor: Descriptor) -> Iterator[None]:
    """Translate AWS's denial to `ClusterPrivate` with the permitted principals."""
    try:
        yield
    except AccessDenied as error:
        if not descriptor.cluster_settings.private_to_creator:
            raise
        raise ClusterPrivate(
            descriptor.cluster, caller=aws.caller_arn, principals=_principals(descriptor)
        ) from error


def check_key_access(aws: Aws, descriptor: Descriptor) -> None:
    """Check before a start that this caller may read a private cluster's keys.

    Raises `ClusterPrivate`.

    Permission needed: ``secretsmanager:GetSecretValue`` on its secret.
    """
    # A cluster that was never started has no keys.
    with translated_key_errors(aws, descriptor), unless(_NO_VALUE):
        aws.client("secretsmanager").get_secret_value(SecretId=descriptor.secret_id)


def check_may_change(aws: Aws, descriptor: Descriptor, doing: str) -> None:
    """Check, before a change of a private cluster, that this caller is among the principals of its
    secret. `doing`: the caller's action.

    Raises `ClusterPrivate`.
    """
    if not descriptor.cluster_settings.private_to_creator:
        return
    principals = _principals(descriptor)
    if not is_named(aws.caller_arn, principals):
        raise ClusterPrivate(
            descriptor.cluster, caller=aws.caller_arn, principals=principals, doing=doing
        )


def _principals(descriptor: Descriptor) -> list[str]:
    return [str(descriptor.lock["creator"]), *descriptor.cluster_settings.secret_principals]
