"""AWS clients, each created on first use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from terradask_host import __version__
from terradask_host.bucket_calls import expect_owner, name_encryption, of_run
from terradask_host.end_once import THROTTLED, end_once
from terradask_host.errors import MetadataUnavailable

if TYPE_CHECKING:
    from botocore.session import Session


class Aws:
    """Clients that share one session; safe to use from several threads."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._clients: dict[tuple[str, str], Any] = {}

    def client(self, service: str, region: str | None = None) -> Any:
        """Return the client of a service, for instance ``s3``, in the host's region or another."""
        key = (service, region or self.region)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._create(*key)
            return self._clients[key]

    def credentials(self) -> Any:
        """Return the instance's current credentials, renewed if they are about to expire."""
        with self._lock:
            found = self._own_session().get_credentials()
        if found is None:
            raise MetadataUnavailable(
                "The metadata service has no credentials of a role.",
                advice="The launch template must name an instance profile with the hosts' role.",
            )
        return found.get_frozen_credentials()

    def unsigned_client(self, service: str) -> Any:
        """Return a separate client whose calls aren't signed."""
        with self._lock:
            return self._create(service, self.region, signed=False)

    def _own_session(self) -> Session:
        # botocore alone: boto3's resources and transfer manager would add a third to the boot time.
        from botocore.session import get_session

        if self._session is None:
            self._session = get_session()
        return self._session

    def _create(self, service: str, region: str, *, signed: bool = True) -> Any:
        from botocore import UNSIGNED  # loaded while the Dask process loads distributed
        from botocore.config import Config

        config = Config(
            signature_version=None if signed else UNSIGNED,
            connect_timeout=5,
            read_timeout=15,
            retries={"mode": "standard", "max_attempts": 4},
            user_agent_extra=f"terradask-host/{__version__}",
        )
        made = self._own_session().create_client(service, region_name=region, config=config)
        settle = {"s3": _settle_s3, "autoscaling": end_once}.get(service)
        return made if settle is None else settle(made)


def _settle_s3(client: Any) -> Any:
    return name_encryption(expect_owner(client), of_run)


def is_aws_error(error: Exception) -> bool:
    """Return whether an exception comes from botocore: AWS refused or could not be reached."""
    from botocore.exceptions import BotoCoreError, ClientError

    return isinstance(error, BotoCoreError | ClientError)


def passes(error: Exception) -> bool:
    """Return whether a call may succeed later: AWS throttled it, failed or was not reached."""
    from botocore.exceptions import BotoCoreError, ClientError

    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or status == 429 or error_code(error) in THROTTLED
    return isinstance(error, BotoCoreError | OSError)


def describe_error(error: Exception) -> str:
    """Return the code and the text of an error of AWS's."""
    return f"{error_code(error)}: {error}"


def error_code(error: Exception) -> str:
    """Return AWS's error code, or the exception's class if AWS was not reached."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return str(response.get("Error", {}).get("Code", type(error).__name__))
    return type(error).__name__
