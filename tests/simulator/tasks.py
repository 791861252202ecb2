"""Tasks that last. Hosts have no tests, so these functions are sent by value: each is inside
another one.
"""

import os
import time


def _slow():
    def slowinc(number, delay):
        time.sleep(delay)
        return number + 1

    return slowinc


#: Adds one after some seconds, as in `distributed.utils_test`, which imports all of Dask.
slowinc = _slow()


def behind(gate):
    """Return a task that adds one as soon as a file is there."""

    def waiting(number):
        while not gate.exists():
            time.sleep(0.02)
        return number + 1

    return waiting


def connect_to_orders() -> str:
    """Connect to the database of the example with company data; return the error."""
    import pg8000.native

    try:
        pg8000.native.Connection(
            "reader",
            host="orders.db.internal",
            database="orders",
            password=os.environ["ORDERS_PASSWORD"],
            timeout=1,
        ).close()
    except pg8000.native.InterfaceError as error:
        return f"{error} {error.__cause__!r}"
    return "connected"


def count_orders() -> int:
    """Read its table as a dataframe, from a task: a host has the password, the client hasn't."""
    import dask.dataframe as dd
    from distributed import worker_client

    password = os.environ["ORDERS_PASSWORD"]
    uri = f"postgresql+pg8000://reader:{password}@orders.db.internal/orders"
    with worker_client():
        return len(dd.read_sql_table("orders", uri, "id", npartitions=2))


def read_prices() -> str:
    """Read its table; return the error."""
    import boto3
    from botocore.exceptions import ClientError

    try:
        boto3.client("dynamodb").scan(TableName="prices")
    except ClientError as error:
        return str(error)
    return "read"


def read_managers() -> str:
    """Read its encrypted object; return the error."""
    import boto3
    from botocore.exceptions import ClientError

    try:
        boto3.client("s3").get_object(Bucket="company-lake", Key="2026/managers.csv")
    except ClientError as error:
        return str(error)
    return "read"
