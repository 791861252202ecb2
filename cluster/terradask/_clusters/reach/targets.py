"""Read the targets of `Cluster.reach`: addresses with ports, URLs, objects of S3, and ARNs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from terradask.errors import InvalidInput

_ALLOWED = (
    "host:port, [IPv6 address]:port, a URL, s3://bucket/key, s3://bucket/prefix/, or the ARN of an "
    "object of S3, a secret, a parameter, a table of DynamoDB, a queue, a topic, a KMS key, a "
    "database or table of Glue, or a role to assume"
)

#: Ports of URLs without one. Those of databases are connected to only.
_PORTS = {
    "https": 443,
    "http": 80,
    "postgresql": 5432,
    "postgres": 5432,
    "redshift": 5439,
    "mysql": 3306,
    "mariadb": 3306,
    "mssql": 1433,
    "oracle": 1521,
    "mongodb": 27017,
    "redis": 6379,
    "rediss": 6379,
    "snowflake": 443,
    "trino": 443,
    "amqp": 5672,
    "nfs": 2049,
}
_WEB = ("https", "http")
#: Names of hosts, and addresses of IPv4.
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")
_BUCKET = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,254}")
_ARN_PARTS = 6
#: Name and version stages of a secret's reference follow its ARN.
_SECRET_PARTS = 7

#: Kinds that are connected to only.
CONNECTED = frozenset({"tcp", "url"})


@dataclass(frozen=True)
class Target:
    """One target, in the form that hosts try.

    Parameters
    ----------
    text
        As it was given, without a user and password.
    kind
        What to try, as in `terradask_host.preload.reach_probe`. None: nothing, for `why_not`.
    facts
        The arguments of that.
    """

    text: str
    kind: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    why_not: str | None = None

    @property
    def arn(self) -> str | None:
        """The ARN that was given."""
        return self.text if self.text.startswith("arn:") else None


def read_target(text: str, *, account: str, partition: str) -> Target:
    """Read one target of a cluster in an account and partition. Raises `InvalidInput`."""
    given = text.strip()
    if given.startswith("arn:"):
        return _read_arn(given, account, partition)
    if given.startswith("s3://"):
        bucket, _, key = given.removeprefix("s3://").partition("/")
        return _s3(given, bucket, key)
    if "://" in given:
        return _read_url(given)
    return _read_address(given)


def _unreadable(given: str, why: str) -> InvalidInput:
    return InvalidInput(f"A target can't be read: {why}.", given=given, allowed=_ALLOWED)


def _s3(text: str, bucket: str, key: str) -> Target:
    if not _BUCKET.fullmatch(bucket):
        raise _unreadable(text, "it has no bucket's name")
    if key == "*" or key.endswith("/*"):
        key = key.removesuffix("*")
    is_prefix = not key or key.endswith("/")
    return Target(text, "s3", {"bucket": bucket, "key": key, "is_prefix": is_prefix})


def _read_url(given: str) -> Target:
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _unreadable("a URL", str(error)) from error
    # SQLAlchemy's URLs name a driver, such as postgresql+psycopg.
    scheme = parts.scheme.partition("+")[0].lower()
    # Without a user and a password, which the result would show.
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if not host or not _is_host(host):
        raise _unreadable(shown, "it has no host")
    if port is None and scheme not in _PORTS:
        raise _unreadable(shown, f"it has no port, and {scheme} has none of its own here")
    port = port or _PORTS[scheme]
    if scheme in _WEB:
        return Target(shown, "url", {"scheme": scheme, "host": host, "port": port})
    return Target(shown, "tcp", {"host": host, "port": port})


def _read_address(given: str) -> Target:
    host, colon, port = given.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise _unreadable(given, "it has no port")
    if ":" in host and host == bare:
        raise _unreadable(given, "an IPv6 address needs brackets")
    if not _is_host(bare):
        raise _unreadable(given, "its host isn't a name or an address")
    return Target(given, "tcp", {"host": bare, "port": int(port)})


def _is_host(host: str) -> bool:
    if ":" not in host:
        return _HOST.fullmatch(host) is not None
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


# ---- ARNs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arn:
    text: str
    region: str
    account: str
    resource: str


def _read_arn(given: str, account: str, partition: str) -> Target:
    parts = given.split(":", _ARN_PARTS - 1)
    if len(parts) < _ARN_PARTS or not parts[2] or not parts[5]:
        raise _unreadable(given, "an ARN is arn:partition:service:region:account:resource")
    arn = _Arn(given, parts[3], parts[4], parts[5])
    if parts[1] != partition:
        return Target(
            given,
            None,
            why_not=f"it is in the partition {parts[1]}, and the cluster's role in {partition}: "
            "no role reaches another partition",
        )
    read = _SERVICES.get(parts[2])
    target = None if read is None else read(arn, account)
    if target is not None:
        return target
    return Target(
        given,
        None,
        why_not=f"no call that only reads is known here for it{_HINTS.get(parts[2], '')}",
    )


_HINTS = {
    service: f". Name {what}"
    for service, what in (
        ("rds", "the database's endpoint: host:port"),
        ("redshift", "the cluster's endpoint: host:port"),
        ("redshift-serverless", "the workgroup's endpoint: host:port"),
        ("elasticache", "the endpoint: host:port"),
        ("elasticfilesystem", "a mount target: address:2049"),
        ("fsx", "the file system: address:988"),
        ("athena", "its database of Glue, and the s3:// places of data and results"),
        ("kafka", "a broker: host:port"),
    )
}


def _s3_arn(arn: _Arn, _account: str) -> Target:
    bucket, _, key = arn.resource.partition("/")
    return _s3(arn.text, bucket, key)


def _secret(arn: _Arn, _account: str) -> Target | None:
    if not arn.resource.startswith("secret:"):
        return None
    own = ":".join(arn.text.split(":")[:_SECRET_PARTS])
    return Target(arn.text, "secret", {"region": arn.region, "arn": own})


def _parameter(arn: _Arn, _account: str) -> Target | None:
    if not arn.resource.startswith("parameter/"):
        return None
    return Target(arn.text, "parameter", {"region": arn.region, "name": arn.text})


def _table(arn: _Arn, account: str) -> Target | None:
    kind, _, name = arn.resource.partition("/")
    if kind != "table" or not name:
        return None
    # An older botocore knows no ARNs here.
    own = name.partition("/")[0] if arn.account == account else arn.text
    return Target(arn.text, "table", {"region": arn.region, "name": own})


def _queue(arn: _Arn, _account: str) -> Target:
    facts = {"region": arn.region, "account": arn.account, "name": arn.resource}
    return Target(arn.text, "queue", facts)


def _topic(arn: _Arn, _account: str) -> Target:
    return Target(arn.text, "topic", {"region": arn.region, "arn": arn.text})


def _key(arn: _Arn, _account: str) -> Target | None:
    if not arn.resource.startswith(("key/", "alias/")):
        return None
    return Target(arn.text, "key", {"region": arn.region, "arn": arn.text})


def _catalog(arn: _Arn, _account: str) -> Target | None:
    kind, _, rest = arn.resource.partition("/")
    database, _, table = rest.partition("/")
    if kind not in ("database", "table") or not database or (kind == "table" and not table):
        return None
    facts = {"region": arn.region, "account": arn.account, "database": database}
    return Target(arn.text, "catalog", {**facts, "table": table or None})


def _role(arn: _Arn, _account: str) -> Target | None:
    return Target(arn.text, "role", {"arn": arn.text}) if arn.resource[:5] == "role/" else None


_SERVICES: Mapping[str, Callable[[_Arn, str], Target | None]] = {
    "s3": _s3_arn,
    "secretsmanager": _secret,
    "ssm": _parameter,
    "dynamodb": _table,
    "sqs": _queue,
    "sns": _topic,
    "kms": _key,
    "glue": _catalog,
    "iam": _role,
}
