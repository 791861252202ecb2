"""A workspace's folder with its network's state in a bucket in memory."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._aws.translation import typed_error
from terradask._network.deployed import DeployedNetwork
from terradask._terraform.state.network import NetworkState
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.states import StackStates
from terradask_stacks.loading import load_settings

ACCOUNT = "123456789012"
BUCKET = f"terradask-state-{ACCOUNT}-us-east-1"
KEY = "workspaces/default/network.tfstate"


class MemoryS3:
    """As much of S3 as a state needs."""

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, bytes]] = {BUCKET: {}}
        self.calls: list[str] = []
        self.versioned = True
        self.region = "us-east-1"
        self.denied: set[str] = set()
        #: Bucket -> account; others are the caller's.
        self.owners: dict[str, str] = {}
        self.taken: set[str] = set()

    def _begin(
        self, operation: str, bucket: str, *, missing: str = "NoSuchBucket"
    ) -> dict[str, bytes]:
        self.calls.append(operation)
        if operation in self.denied:
            raise refused(operation, "AccessDenied", 403)
        if bucket not in self.buckets:
            raise refused(operation, missing, 404)
        return self.buckets[bucket]

    def head_bucket(self, **request: str) -> dict[str, Any]:
        self._begin("HeadBucket", request["Bucket"], missing="404")
        owner = self.owners.get(request["Bucket"], ACCOUNT)
        if request.get("ExpectedBucketOwner", owner) != owner:
            raise refused("HeadBucket", "403", 403)
        return {"BucketRegion": self.region, "ResponseMetadata": {"HTTPHeaders": {}}}

    def create_bucket(self, **request: Any) -> None:
        self.calls.append("CreateBucket")
        if "CreateBucket" in self.denied:
            raise refused("CreateBucket", "AccessDenied", 403)
        if request["Bucket"] in self.taken:
            raise refused("CreateBucket", "BucketAlreadyExists", 409)
        self.buckets[request["Bucket"]] = {}

    def get_bucket_tagging(self, **request: str) -> dict[str, Any]:
        self._begin("GetBucketTagging", request["Bucket"])
        raise refused("GetBucketTagging", "NoSuchTagSet", 404)

    def get_bucket_versioning(self, **request: str) -> dict[str, Any]:
        self._begin("GetBucketVersioning", request["Bucket"])
        return {"Status": "Enabled"} if self.versioned else {}

    def get_object(self, **request: str) -> dict[str, Any]:
        objects, key = self._begin("GetObject", request["Bucket"]), request["Key"]
        if key not in objects:
            raise refused("GetObject", "NoSuchKey", 404)
        content = objects[key]
        return {
            "Body": io.BytesIO(content),
            "ContentLength": len(content),
            "ETag": etag_of(content),
            "LastModified": datetime.datetime.now(datetime.UTC),
        }

    def list_objects_v2(self, **request: Any) -> dict[str, Any]:
        # A look at what is missing; it is counted with the reading that found nothing.
        objects = self.buckets.get(request["Bucket"], {})
        found = sorted(key for key in objects if key.startswith(request["Prefix"]))
        return {"Contents": [{"Key": key} for key in found[: request["MaxKeys"]]]}

    def put_object(self, **request: Any) -> None:
        objects, key = self._begin("PutObject", request["Bucket"]), request["Key"]
        there = None if key not in objects else etag_of(objects[key])
        if ("IfNoneMatch" in request and there is not None) or (
            "IfMatch" in request and there != request["IfMatch"]
        ):
            raise refused("PutObject", "PreconditionFailed", 412)
        objects[key] = request["Body"]

    def delete_object(self, **request: str) -> None:
        self._begin("DeleteObject", request["Bucket"]).pop(request["Key"], None)


def refused(operation: str, code: str, status: int) -> Exception:
    """Return what a client of `Aws` raises."""
    error = ClientError(
        {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}},
        operation,
    )
    return typed_error(error, "us-east-1") or error


def etag_of(content: bytes) -> str:
    return f'"{hash(content)}"'


def state_of(account: str = ACCOUNT) -> bytes:
    instances = [
        {
            "mode": "managed",
            "type": "aws_vpc",
            "name": f"n{i}",
            "instances": [{"attributes": {"id": f"vpc-{i}", "arn": arn_of(account)}}],
        }
        for i in range(2)
    ]
    return json.dumps(
        {"version": 4, "serial": 3, "lineage": "one", "outputs": {}, "resources": instances}
    ).encode()


def arn_of(account: str) -> str:
    return f"arn:aws:ec2:us-east-1:{account}:vpc/vpc-1"


class Folder:
    """A workspace's folder on one machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.s3 = MemoryS3()
        self.told: list[str] = []
        self.environ: dict[str, str] = {}
        self.stack = root / "cdktf.out/stacks/network"
        self.settings()

    def settings(self, **more: Any) -> None:
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
        (self.root / "terradask.toml").write_text(f"[state]\nlock_timeout_seconds = 0\n{lines}")

    @property
    def states(self) -> StackStates:
        aws = Aws("us-east-1")
        aws._clients["s3"] = self.s3
        aws._caller._identity = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/me"}
        loaded = load_settings(self.root, environ=self.environ)
        return StackStates(
            WorkspaceContext(
                SettingsSource(self.root, {}),
                loaded,
                aws,
                DeployedNetwork(aws, loaded.settings),
                lambda event: self.told.append(getattr(event, "text", "")),
            )
        )

    @property
    def state(self) -> NetworkState:
        return self.states.network

    @property
    def objects(self) -> dict[str, bytes]:
        return self.s3.buckets[BUCKET]
