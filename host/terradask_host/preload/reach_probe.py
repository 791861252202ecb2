"""Tries to reach targets, as a task would: run by path in Dask's environment, as its own process,
``python -P reach_probe.py <folder of terradask_host>``.

It reads ``targets`` and ``seconds`` as JSON from standard input, and writes what it found as JSON.
It changes nothing: its calls of AWS only read, and it drops what they return. Without botocore in
the environment it uses the host program's.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

#: Most characters of an error's text.
MOST_CHARACTERS = 1500
#: Calls of one target, after its name and its connection.
_MOST_STEPS = 4
#: Until the libraries are imported, on a busy host.
START_SECONDS = 20.0
_METADATA = "http://169.254.169.254"
_SESSION = "terradask-reach"


def limit_seconds(seconds: float) -> float:
    """Return how long the program may take if one connection or call may take `seconds`."""
    return START_SECONDS + _MOST_STEPS * seconds


class Problem(Exception):
    """A step that failed: ``kind`` is the word for it."""

    def __init__(self, kind: str, text: object, **facts: Any) -> None:
        super().__init__(str(text))
        self.facts = {"kind": kind, "text": str(text)[:MOST_CHARACTERS], **facts}


class Try:
    """One target's try, and what it has found so far."""

    def __init__(self, target: Mapping[str, Any], seconds: float, clients: Clients) -> None:
        self._target, self._seconds, self._clients = target, seconds, clients
        self.found: dict[str, Any] = {"calls": []}
        self._doing: dict[str, Any] = {"doing": "resolve"}

    def run(self) -> None:
        """Run the steps, and record the first that fails."""
        try:
            _KINDS[self._target["kind"]](self, **self._target["facts"])
        except Problem as problem:
            self.found["problem"] = problem.facts
        except Exception as error:  # noqa: BLE001 - any error is what was found
            self.found["problem"] = {"kind": "failed", "text": f"{type(error).__name__}: {error}"}
        self.found["done"] = True

    def finish(self) -> dict[str, Any]:
        """Return what was found; a step that still runs has timed out."""
        found = dict(self.found)
        if not found.pop("done", False) and "problem" not in found:
            found["problem"] = {"kind": "timeout", "text": "it didn't end in time", **self._doing}
        return found

    # ---- connections -----------------------------------------------------------------------------

    def connect(self, host: str, port: int, tls_name: str | None = None) -> None:
        """Resolve a name, and connect to its addresses in turn; with `tls_name`, agree on TLS."""
        self._doing = {"doing": "resolve", "host": host, "port": port}
        addresses = self.found["addresses"] = _resolve(host, port)
        self.found["port"] = port
        until, problem = time.monotonic() + self._seconds, None
        for number, address in enumerate(addresses):
            self._doing = {"doing": "connect", "address": address, "port": port}
            left = (until - time.monotonic()) / (len(addresses) - number)
            since = time.monotonic()
            try:
                with _connected(address, port, max(left, 0.1)) as connection:
                    self.found["connected_seconds"] = round(time.monotonic() - since, 4)
                    self.found["address"] = address
                    if tls_name is not None:
                        self._doing = {"doing": "tls", "address": address, "port": port}
                        _agree(connection, tls_name, self._seconds)
                    return
            except Problem as failed:
                problem = problem or failed
        assert problem is not None
        raise problem

    def url(self, scheme: str, host: str, port: int) -> None:
        """Connect to a URL's server, or through the proxy that requests would take."""
        proxy = _proxy_for(host, scheme)
        if proxy is None:
            self.connect(host, port, host if scheme == "https" else None)
            return
        self.found["proxy"] = proxy.hostname
        self.connect(str(proxy.hostname), proxy.port or 80)
        if scheme == "https":
            self._doing = {"doing": "proxy", "host": host, "port": port}
            _tunnel(proxy, host, port, self._seconds)

    # ---- calls of AWS ----------------------------------------------------------------------------

    def aws(self, service: str, region: str | None) -> Callable[..., Any]:
        """Connect to a service's endpoint, or to the proxy before it; return what calls it.

        A call is recorded by its right, which most often has the operation's name.
        """
        client = self._clients.create(service, region, self._seconds)
        endpoint = urlsplit(client.meta.endpoint_url)
        proxy = _proxy_for(endpoint.hostname or "", endpoint.scheme)
        to = proxy or endpoint
        self.found["endpoint"] = endpoint.hostname
        if proxy is not None:
            self.found["proxy"] = proxy.hostname
        self.connect(str(to.hostname), to.port or (443 if to.scheme == "https" else 80))

        def call(operation: str, right: str | None = None, **arguments: Any) -> Any:
            name = right or f"{service}:{client.meta.method_to_api_mapping[operation]}"
            self._doing = {"doing": "call", "call": name}
            since = time.monotonic()
            one: dict[str, Any] = {"call": name}
            answer = None
            try:
                answer = getattr(client, operation)(**arguments)
            except Exception as error:  # noqa: BLE001 - any error is what was found
                one |= _why(error)
            one["seconds"] = round(time.monotonic() - since, 4)
            self.found["calls"].append(one)
            return answer

        return call

    def s3(self, bucket: str, key: str, is_prefix: bool) -> None:
        """Read a byte of an object, or of the first one with a prefix, after listing it."""
        call = self.aws("s3", None)
        if is_prefix:
            listed = call("list_objects_v2", "s3:ListBucket", Bucket=bucket, Prefix=key, MaxKeys=1)
            objects = (listed or {}).get("Contents") or []
            if not objects:
                return
            key = objects[0]["Key"]
        got = call("get_object", Bucket=bucket, Key=key, Range="bytes=0-0")
        if got is not None:
            got["Body"].close()

    def secret(self, region: str, arn: str) -> None:
        """Read a secret."""
        self.aws("secretsmanager", region)("get_secret_value", SecretId=arn)

    def parameter(self, region: str, name: str) -> None:
        """Read a parameter, decrypted."""
        self.aws("ssm", region)("get_parameter", Name=name, WithDecryption=True)

    def table(self, region: str, name: str) -> None:
        """Ask for an item by another key than the table's, which DynamoDB calls invalid to those
        who may read; and read an item.
        """
        call = self.aws("dynamodb", region)
        key = {_SESSION: {"S": _SESSION}}
        call("get_item", TableName=name, Key=key)
        call("scan", TableName=name, Limit=1)

    def queue(self, region: str, account: str, name: str) -> None:
        """Read a queue's attributes."""
        call = self.aws("sqs", region)
        url = f"{self._clients.create('sqs', region, self._seconds).meta.endpoint_url}/{account}/"
        call("get_queue_attributes", QueueUrl=url + name, AttributeNames=["QueueArn"])

    def topic(self, region: str, arn: str) -> None:
        """Read a topic's attributes."""
        self.aws("sns", region)("get_topic_attributes", TopicArn=arn)

    def key(self, region: str, arn: str) -> None:
        """Look a key up, and check whether it would make a data key."""
        call = self.aws("kms", region)
        call("describe_key", KeyId=arn)
        call("generate_data_key", KeyId=arn, KeySpec="AES_256", DryRun=True)

    def catalog(self, region: str, account: str, database: str, table: str | None) -> None:
        """Read the description of a database, or of a table."""
        call = self.aws("glue", region)
        if table is None:
            call("get_database", CatalogId=account, Name=database)
        else:
            call("get_table", CatalogId=account, DatabaseName=database, Name=table)

    def role(self, arn: str) -> None:
        """Assume a role for the shortest time, and drop its credentials."""
        call = self.aws("sts", None)
        call("assume_role", RoleArn=arn, RoleSessionName=_SESSION, DurationSeconds=900)


_KINDS: Mapping[str, Callable[..., None]] = {
    "tcp": Try.connect,
    "url": Try.url,
    "s3": Try.s3,
    "secret": Try.secret,
    "parameter": Try.parameter,
    "table": Try.table,
    "queue": Try.queue,
    "topic": Try.topic,
    "key": Try.key,
    "catalog": Try.catalog,
    "role": Try.role,
}


class Clients:
    """Creates clients of AWS with the credentials that tasks get."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Any = None

    def create(self, service: str, region: str | None, seconds: float) -> Any:
        """Return a client that tries once. Raises `Problem`."""
        # A session isn't safe to use from several threads.
        with self._lock:
            try:
                from botocore.config import Config
                from botocore.exceptions import BotoCoreError
                from botocore.session import get_session
            except ImportError as error:
                raise Problem("no_botocore", error) from error
            try:
                self._session = self._session or get_session()
                config = Config(
                    connect_timeout=seconds,
                    read_timeout=seconds,
                    retries={"mode": "standard", "total_max_attempts": 1},
                )
                return self._session.create_client(service, region_name=region, config=config)
            except BotoCoreError as error:
                raise Problem("no_client", error) from error


def _resolve(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        again = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
        raise Problem("no_name_server" if again else "no_name", error, host=host) from error
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def _connected(address: str, port: int, seconds: float) -> socket.socket:
    try:
        return socket.create_connection((address, port), timeout=seconds)
    except OSError as error:
        raise Problem(
            _kind_of(error), f"{type(error).__name__}: {error}", address=address, port=port
        ) from error


def _kind_of(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if error.errno in {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL}:
        return "no_route"
    return "failed"


def _agree(connection: socket.socket, name: str, seconds: float) -> None:
    connection.settimeout(seconds)
    try:
        with ssl.create_default_context().wrap_socket(connection, server_hostname=name):
            pass
    except OSError as error:
        raise Problem("tls", error) from error


def _tunnel(proxy: Any, host: str, port: int, seconds: float) -> None:
    tunnel = http.client.HTTPSConnection(proxy.hostname, proxy.port or 80, timeout=seconds)
    tunnel.set_tunnel(host, port)
    try:
        tunnel.connect()
    except OSError as error:
        raise Problem("proxy", error) from error
    finally:
        tunnel.close()


def _proxy_for(host: str, scheme: str) -> Any:
    """Return the address of the proxy that the environment names for a host, or None."""
    from urllib.request import getproxies, proxy_bypass

    address = getproxies().get(scheme)
    if not address or proxy_bypass(host):
        return None
    return urlsplit(address if "://" in address else f"http://{address}")


def _why(error: Exception) -> dict[str, Any]:
    response = getattr(error, "response", None)
    if not isinstance(response, dict) or "Error" not in response:
        return {"code": type(error).__name__, "message": str(error)[:MOST_CHARACTERS]}
    answered = response["Error"]
    return {
        "code": str(answered.get("Code", "")),
        "message": str(answered.get("Message", ""))[:MOST_CHARACTERS],
        "status": response.get("ResponseMetadata", {}).get("HTTPStatusCode"),
    }


# ---- the caller ----------------------------------------------------------------------------------


def _caller(clients: Clients, seconds: float) -> str | None:
    with contextlib.suppress(Exception):
        identity = clients.create("sts", None, seconds).get_caller_identity()
        return str(identity["Arn"])
    return None


def _security_groups() -> list[str]:
    """Return the ids of this instance's security groups, as its metadata names them."""
    from terradask_host.metadata import InstanceMetadata, interface_facts

    with contextlib.suppress(Exception):
        metadata = InstanceMetadata(
            os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA
        )
        lists = interface_facts(metadata, "security-group-ids")
        return list(dict.fromkeys(each for found in lists for each in found.split()))
    return []


def _side_by_side(works: list[Callable[[], Any]], seconds: float) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def probe(order: Mapping[str, Any]) -> dict[str, Any]:
    """Try all targets side by side, and return what was found of each, in their order."""
    seconds, clients = float(order["seconds"]), Clients()
    tries = [Try(target, seconds, clients) for target in order["targets"]]
    asks: dict[str, Any] = {"caller": None, "security_groups": []}

    def ask() -> None:
        asks["security_groups"] = _security_groups()
        asks["caller"] = _caller(clients, seconds)

    _side_by_side([ask, *(one.run for one in tries)], _MOST_STEPS * seconds)
    return {**asks, "results": [one.finish() for one in tries]}


def main() -> int:
    """Read the order, write what was found, and end with the threads that still wait."""
    sys.path.append(sys.argv[1])
    found = probe(json.load(sys.stdin))
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    # Threads that wait for a name can't be cancelled.
    os._exit(0)


if __name__ == "__main__":
    main()
