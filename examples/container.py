"""Run tasks in a container image: Dask's own in the version that is installed here, or another."""

import sys

import dask

from terradask import Cluster

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
IMAGE = f"ghcr.io/dask/dask:{dask.__version__}-py{PYTHON}"

if __name__ == "__main__":
    image = sys.argv[1] if len(sys.argv) > 1 else IMAGE
    with Cluster(container=image, n_workers=2) as cluster, cluster.get_client() as client:
        print(client.submit(lambda: f"computed with {image}").result())
