"""Targets of `Cluster.reach`, as hosts get them."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._clusters.reach.targets import Target, read_target
from terradask.errors import InvalidInput

OWN, OTHER = "123456789012", "999988887777"


def read(text: str) -> Target:
    return read_target(text, account=OWN, partition="aws")


@pytest.mark.parametrize(
    ("text", "kind", "facts"),
    [
        ("db.internal:5432", "tcp", {"host": "db.internal", "port": 5432}),
        (" 10.1.2.3:1433 ", "tcp", {"host": "10.1.2.3", "port": 1433}),
        ("[2001:db8::7]:5432", "tcp", {"host": "2001:db8::7", "port": 5432}),
        ("https://licences.acme.com/x?y", "url", {"scheme": "https", "port": 443}),
        ("http://licences.acme.com:8080", "url", {"scheme": "http", "port": 8080}),
        ("postgresql+psycopg://etl:pw@db/orders", "tcp", {"host": "db", "port": 5432}),
        ("redshift://dw.acme.com/dev", "tcp", {"port": 5439}),
        ("s3://lake/2026/a.parquet", "s3", {"bucket": "lake", "is_prefix": False}),
        ("s3://lake/2026/", "s3", {"key": "2026/", "is_prefix": True}),
        ("s3://lake", "s3", {"key": "", "is_prefix": True}),
        ("s3://lake/a*", "s3", {"key": "a*", "is_prefix": False}),
        ("arn:aws:s3:::lake/2026/*", "s3", {"bucket": "lake", "key": "2026/", "is_prefix": True}),
        (
            f"arn:aws:secretsmanager:us-east-1:{OWN}:secret:db-AbCdEf:password::",
            "secret",
            {"arn": f"arn:aws:secretsmanager:us-east-1:{OWN}:secret:db-AbCdEf"},
        ),
        (f"arn:aws:ssm:eu-west-1:{OWN}:parameter/a/b", "parameter", {"region": "eu-west-1"}),
        (f"arn:aws:dynamodb:us-east-1:{OWN}:table/prices", "table", {"name": "prices"}),
        (
            f"arn:aws:dynamodb:us-east-1:{OTHER}:table/prices",
            "table",
            {"name": f"arn:aws:dynamodb:us-east-1:{OTHER}:table/prices"},
        ),
        (f"arn:aws:sqs:us-east-1:{OWN}:work", "queue", {"account": OWN, "name": "work"}),
        (f"arn:aws:sns:us-east-1:{OWN}:news", "topic", {"region": "us-east-1"}),
        (f"arn:aws:kms:us-east-1:{OWN}:key/1", "key", {"region": "us-east-1"}),
        (f"arn:aws:glue:us-east-1:{OWN}:database/lake", "catalog", {"table": None}),
        (f"arn:aws:glue:us-east-1:{OWN}:table/lake/t", "catalog", {"table": "t"}),
        (f"arn:aws:iam::{OTHER}:role/x/reader", "role", {}),
    ],
)
def test_a_target_becomes_what_hosts_try(text: str, kind: str, facts: dict[str, Any]) -> None:
    target = read(text)
    assert target.kind == kind
    assert facts.items() <= dict(target.facts).items()


def test_no_password_of_a_url_is_kept() -> None:
    target = read("postgresql://etl:hunter2@db.internal/orders?sslmode=require")
    assert target.text == "postgresql://db.internal/orders"
    assert "hunter2" not in repr(target)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"arn:aws:rds:us-east-1:{OWN}:db:orders", "endpoint: host:port"),
        (f"arn:aws:athena:us-east-1:{OWN}:workgroup/w", "database of Glue"),
        (f"arn:aws:lambda:us-east-1:{OWN}:function:f", "no call that only reads"),
        (f"arn:aws:iam::{OWN}:user/jane", "no call that only reads"),
        ("arn:aws-cn:s3:::lake/x", "partition aws-cn"),
    ],
)
def test_what_isnt_tried_says_why(text: str, why: str) -> None:
    target = read(text)
    assert target.kind is None
    assert why in str(target.why_not)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("db.internal", "no port"),
        ("db:0", "no port"),
        ("db:70000", "no port"),
        ("2001:db8::7:5432", "needs brackets"),
        ("[nowhere:x]:1", "isn't a name or an address"),
        ("data base:5432", "isn't a name or an address"),
        ("s3:///key", "no bucket's name"),
        ("ftp://files", "has no port, and ftp"),
        ("https:///x", "no host"),
        ("http://db:99999", "Port out of range"),
        ("arn:aws:s3", "an ARN is arn:partition"),
        ("", "no port"),
    ],
)
def test_what_cant_be_read_is_refused_with_what_can(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as raised:
        read(text)
    assert "s3://bucket/key" in str(raised.value.allowed)
