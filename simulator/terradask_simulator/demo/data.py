"""The demo's data: hourly weather as Parquet files in a user's bucket, and unique results, whose
random content shows whether they were computed again.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FILES = 8
ROWS_PER_FILE = 60_000
STATIONS = 40
PIECE_BYTES = 256 * 1024


def weather(seed: int) -> pd.DataFrame:
    """Make all rows, reproducibly."""
    import numpy as np
    import pandas as pd

    rows = FILES * ROWS_PER_FILE
    random = np.random.default_rng(seed)
    hours = np.arange(rows) // STATIONS
    station = np.arange(rows) % STATIONS
    names = np.array([f"station-{number:02d}" for number in range(STATIONS)])
    season = np.sin(2 * np.pi * hours / 8_766)
    return pd.DataFrame(
        {
            "station": names[station],
            "time": pd.Timestamp("2020-01-01") + pd.to_timedelta(hours, unit="h"),
            "temperature": 9 + 12 * season + random.normal(0, 4, rows) + station / 10,
            "rain": random.gamma(0.2, 2.0, rows),
        }
    )


def write(frame: pd.DataFrame, bucket: str) -> int:
    """Write the rows as files into the bucket as the caller; return their size in bytes."""
    import io

    import boto3

    s3: Any = boto3.client("s3")
    size = 0
    for number in range(FILES):
        buffer = io.BytesIO()
        part = frame.iloc[number * ROWS_PER_FILE : (number + 1) * ROWS_PER_FILE]
        part.to_parquet(buffer, index=False, row_group_size=ROWS_PER_FILE // 4)
        s3.put_object(Bucket=bucket, Key=key(number), Body=buffer.getvalue())
        size += buffer.tell()
    return size


def key(number: int) -> str:
    """Return the key of a file."""
    return f"weather/part-{number:02d}.parquet"


def station_means(frame: Any) -> Any:
    """Return each station's temperature, rain and hours, for pandas and Dask alike."""
    return frame.groupby("station").agg(
        {"temperature": ["mean", "max"], "rain": "sum", "time": "count"}
    )


def piece(_number: int) -> bytes:
    """Make a random piece that can't be made again."""
    return os.urandom(PIECE_BYTES)


def fingerprint(data: bytes) -> str:
    """Return the checksum of a piece."""
    return hashlib.sha256(data).hexdigest()
