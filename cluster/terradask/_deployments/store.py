"""The objects of one cluster in the workspace bucket, and its secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from terradask._deployments.documents import DocumentFormat

if TYPE_CHECKING:
    from terradask._aws.session import Aws

DESCRIPTOR = "cluster.json"
RUN = "run.json"
SCHEDULER = "scheduler.json"
SOFTWARE = "software.lock"
CLOSING = "closing.json"
HOSTS = "hosts/"
EVENTS = "events/"
STATE = "terraform.tfstate"
STATE_LOCK = "terraform.tfstate.tflock"

#: Objects that belong to one run: gone once the cluster is stopped.
OF_A_RUN = (RUN, SCHEDULER, SOFTWARE)

_MISSING = frozenset({"NoSuchKey", "NoSuchBucket", "404"})
#: What S3 answers where a condition of a write doesn't hold, or another write is on its way:
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
_LOST_RACE = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})

_PARALLEL_READS = 16
_DELETE_BATCH = 1000


class ClusterObjects:
    """Objects under ``clusters/<name>/`` in the workspace bucket.

    Notes
    -----
    Permissions needed: ``s3:GetObject``, ``PutObject``, ``DeleteObject`` on ``clusters/<name>/*`` and ``s3:ListBucket``.
    """

    def __init__(self, aws: Aws, bucket: str, cluster: str) -> None:
        self._aws = aws
        self.bucket = bucket
        self.prefix = f"clusters/{cluster}/"

    @property
    def _client(self) -> Any:
        return self._aws.client("s3")

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object, or None where there is none."""
        found = self.read_version(name)
        return None if found is None else found[0]

    def read_version(self, name: str) -> tuple[dict[str, Any], str] | None:
        """Return a JSON object with its ETag, for `replace`, or None where there is none."""
        from botocore.exceptions import ClientError

        try:
            answer = self._client.get_object(Bucket=self.bucket, Key=self.prefix + name)
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise
        return parse_object(answer["Body"].read(), name), answer["ETag"]

    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write a JSON object, in place of what may be there."""
        self._put(name, json.dumps(document, sort_keys=True).encode(), "application/json")

    def write_text(self, name: str, text: str) -> None:
        """Write a text object."""
        self._put(name, text.encode(), "text/plain; charset=utf-8")

    def claim(self, name: str, document: dict[str, Any]) -> bool:
        """Write a JSON object if there is none, and tell whether it was written.

        S3 decides between several callers: exactly one wins, as long as their documents differ.
        """
        return self._put_if(name, document, IfNoneMatch="*")

    def replace(self, name: str, document: dict[str, Any], version: str) -> bool:
        """Write a JSON object in place of exactly the version that `read_version` returned, and tell whether it was written.

        S3 decides between several callers: exactly one wins, as long as their documents differ.
        """
        return self._put_if(name, document, IfMatch=version)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that don't exist are no error."""
        keys = [{"Key": self.prefix + name} for name in names]
        for start in range(0, len(keys), _DELETE_BATCH):
            self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": keys[start : start + _DELETE_BATCH], "Quiet": True})

    def names(self, under: str = "") -> list[str]:
        """List the names of objects that start with `under`; none where there is no bucket."""
        from botocore.exceptions import ClientError

        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + under)
        try:
            return [entry["Key"][len(self.prefix) :] for page in pages for entry in page.get("Contents", ())]
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return []
            raise

    def delete_run(self) -> None:
        """Delete what belongs to a run: its description, addresses and the hosts' reports."""
        self.delete([*OF_A_RUN, *self.names(HOSTS)])

    def hosts(self) -> list[dict[str, Any]]:
        """Read the report of every host, in the order of their instance ids."""
        return [report for report in self.read_all(self.names(HOSTS)) if report is not None]

    def host_versions(self) -> dict[str, str]:
        """List the reports of hosts: the ETag of each by its host's instance id."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix + HOSTS)
        listed = ((entry["Key"].rpartition("/")[2], entry["ETag"]) for page in pages for entry in page.get("Contents", ()))
        return {name.removesuffix(".json"): etag for name, etag in listed}

    def read_all(self, names: Sequence[str]) -> list[dict[str, Any] | None]:
        """Read several JSON objects at a time, in their order; None for those that don't exist."""
        if not names:
            return []
        with ThreadPoolExecutor(min(_PARALLEL_READS, len(names))) as pool:
            return list(pool.map(self.read, names))

    def _put_if(self, name: str, document: dict[str, Any], **condition: str) -> bool:
        from botocore.exceptions import ClientError

        body = json.dumps(document, sort_keys=True).encode()
        try:
            self._put(name, body, "application/json", **condition)
        except ClientError as error:
            # Without the object, S3 answers 404 to a demand for one of its versions.
            if error.response["Error"]["Code"] in _LOST_RACE or ("IfMatch" in condition and error.response["Error"]["Code"] == "NoSuchKey"):
                # When an answer is lost, boto3 asks again, and S3 refuses because of what the first attempt wrote.
                return bool(self.read(name) == json.loads(body))
            raise
        return True

    def _put(self, name: str, body: bytes, content_type: str, **conditions: str) -> None:
        self._client.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=body, ContentType=content_type, **conditions)


def parse_object(content: bytes | str, name: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises
    ------
    DocumentFormat
        If it is none. What was read is never part of the error.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return document
    if name.startswith(HOSTS):
        return {}
    raise DocumentFormat(f"{name} is no JSON object.", allowed="what terradask wrote there", advice="stop the cluster and start it again")


def write_secret(aws: Aws, secret_id: str, document: dict[str, Any], *, version_id: str) -> None:
    """Write the value of a secret that Terraform made.

    Notes
    -----
    Permission needed: ``secretsmanager:PutSecretValue`` on the secret.
    """
    aws.client("secretsmanager").put_secret_value(SecretId=secret_id, SecretString=json.dumps(document), ClientRequestToken=version_id)


def read_secret(aws: Aws, secret_id: str, *, version_id: str) -> dict[str, Any]:
    """Read one version of a secret.

    Notes
    -----
    Permission needed: ``secretsmanager:GetSecretValue`` on the secret.
    """
    value = aws.client("secretsmanager").get_secret_value(SecretId=secret_id, VersionId=version_id)
    return parse_object(value["SecretString"], f"the secret {secret_id}")


def holds_nothing(objects: ClusterObjects) -> bool:
    """Tell whether all that is left is a state without resources, as ``cdktf destroy`` leaves it, and what happened before."""
    return [name for name in objects.names() if not name.startswith(EVENTS)] == [STATE] and not (objects.read(STATE) or {}).get("resources")


def cluster_names(aws: Aws, bucket: str) -> list[str]:
    """Return the names under ``clusters/`` in the bucket, deployed or half-made, sorted; none where there is no bucket.

    Notes
    -----
    Permission needed: ``s3:ListBucket``.
    """
    from botocore.exceptions import ClientError

    try:
        pages = aws.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="clusters/")
        return sorted({entry["Key"].split("/")[1] for page in pages for entry in page.get("Contents", ())})
    except ClientError as error:
        if error.response["Error"]["Code"] in {"NoSuchBucket", "404"}:
            return []
        raise
