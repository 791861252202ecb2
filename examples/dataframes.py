"""Read Parquet files with pandas on the workers, and write what was computed beside them.

``python dataframes.py s3://my-bucket/events``: hosts may read and write the buckets that
``network.data_buckets`` names. pandas and s3fs are installed here, and so hosts have them too.
"""

import sys

import dask.dataframe as dd
import pandas as pd

from terradask import Cluster


def sample(url: str) -> None:
    """Write a few files, where you have none yet."""
    events = pd.DataFrame({"city": ["Kyiv", "Lagos", "Lima"] * 4_000, "amount": range(12_000)})
    dd.from_pandas(events, npartitions=4).to_parquet(f"{url}/events")


if __name__ == "__main__":
    url = sys.argv[1]
    with Cluster(n_workers=2, wait_for_workers=True) as cluster, cluster.get_client():
        sample(url)
        events = dd.read_parquet(f"{url}/events")
        totals = events.groupby("city")["amount"].agg(["count", "mean"])
        totals.to_parquet(f"{url}/totals")
        print(totals.compute().sort_index())
