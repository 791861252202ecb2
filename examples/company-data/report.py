"""Turnover of orders by region: from a database, DynamoDB, an encrypted bucket, and files.

Tasks alone reach them: with their host's role, and a password that AWS has. Whoever runs this
program needs neither, nor a way to the database.
"""

import io
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import dask.dataframe as dd
import pandas as pd
import pg8000.dbapi
import sqlalchemy as sa

from terradask import Cluster

DATABASE, BUCKET, TABLE = "orders.db.internal", "company-lake", "prices"
PIECES = 1000

orders = sa.table("orders", sa.column("id"), sa.column("product"), sa.column("region"))
meta = pd.DataFrame({"product": pd.Series(dtype=str), "region": pd.Series(dtype=str)})
meta.index = pd.Index([], dtype="int64", name="id")


def connect() -> Any:
    """Connect to the database from a host, which has the password."""
    return pg8000.dbapi.connect(
        host=DATABASE,
        database="orders",
        user="reader",
        password=os.environ["ORDERS_PASSWORD"],
        timeout=10,
    )


def read_prices() -> dict[str, Decimal]:
    """Return the price of each product."""
    rows = boto3.resource("dynamodb").Table(TABLE).scan()["Items"]
    return {row["product"]: row["price"] for row in rows}


def read_managers() -> dict[str, str]:
    """Return the manager of each region."""
    body = boto3.client("s3").get_object(Bucket=BUCKET, Key="2026/managers.csv")["Body"]
    rows = pd.read_csv(io.BytesIO(body.read()))
    return dict(zip(rows["region"], rows["manager"], strict=True))


def read_targets() -> dict[str, float]:
    """Return the target of each region, from a mounted bucket."""
    rows = pd.read_csv(Path(os.environ["TERRADASK_MOUNT_DATA_TARGETS"], "targets.csv"))
    return dict(zip(rows["region"], rows["target"], strict=True))


with Cluster("orders") as cluster, cluster.get_client() as client:
    frame = dd.read_sql_query(
        sa.select(orders),
        # Without a password: each task connects by itself.
        "postgresql+pg8000://",
        "id",
        meta=meta,
        head_rows=0,
        divisions=[1, PIECES // 2, PIECES],
        engine_kwargs={"creator": connect},
    )
    tasks = (read_prices, read_managers, read_targets)
    prices, managers, targets = client.gather([client.submit(each) for each in tasks])
    pieces = frame.groupby(["region", "product"]).size().compute()
    for region, manager in sorted(managers.items()):
        turnover = sum(count * prices[product] for product, count in pieces[region].items())
        print(f"{region} ({manager}): {turnover} of {targets[region]}")
