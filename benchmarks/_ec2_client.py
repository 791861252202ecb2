"""Scale an EC2Cluster to each size of its arguments and print JSON; dask-cloudprovider's own Python
runs it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.request
from typing import Any

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from dask_cloudprovider.aws import EC2Cluster
from dask_cloudprovider.aws.ec2 import EC2Scheduler
from distributed import Scheduler


class StandIn(EC2Scheduler):
    """Requests the scheduler's instance from AWS as usual, then runs a scheduler at its address,
    where no machine boots.
    """

    async def create_vm(self) -> Any:
        """Return what EC2Cluster's method returns."""
        addresses = await super().create_vm()
        listed = [
            one
            for one in (addresses if isinstance(addresses, tuple | list) else [addresses])
            if one
        ]
        self.local = await Scheduler(host=listed, port=8786, protocol="tcp", dashboard=False)
        return addresses


def asked(path: str) -> Any:
    """Return what the embedded AWS tells of itself."""
    # It answers only to its owner's signature.
    request = AWSRequest("GET", os.environ["AWS_ENDPOINT_URL"] + f"/terradask-sim/{path}")
    credentials = botocore.session.Session().get_credentials()
    assert credentials is not None
    SigV4Auth(credentials, "terradask-sim", os.environ["AWS_REGION"]).add_auth(request)
    signed = urllib.request.Request(str(request.url), headers=dict(request.headers.items()))
    with urllib.request.urlopen(signed) as answer:
        return json.load(answer)


def _counted() -> int:
    return sum(asked("calls").values())


async def main(given: dict[str, Any], sizes: list[int]) -> None:
    """Scale up and down, and print the figures of scaling up."""
    cluster = EC2Cluster(asynchronous=True, security=False, n_workers=0, **given)
    cluster.scheduler_class = StandIn
    async with cluster:
        for n in sizes:
            before, started = _counted(), time.perf_counter()
            cluster.scale(n)
            try:
                await cluster
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                print(
                    json.dumps(
                        {"n": n, "failed": said, "failed_seconds": time.perf_counter() - started}
                    ),
                    flush=True,
                )
                raise
            seconds = time.perf_counter() - started
            assert len(cluster.workers) == n
            print(
                json.dumps({"n": n, "calls": _counted() - before, "requested_seconds": seconds}),
                flush=True,
            )
            cluster.scale(0)
            await cluster


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), [int(size) for size in sys.argv[2:]]))
