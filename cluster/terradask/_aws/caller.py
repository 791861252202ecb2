"""Identify the caller by AWS's answer; the account is usually known before."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from terradask._aws.endpoints import own_cache
from terradask.errors import AwsError, InvalidCredentials, RegionUnusable

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials


class Caller:
    """The caller's account and ARN. Safe to use from several threads.

    Parameters
    ----------
    client
        Returns a service's client in the region.
    credentials
        Returns what it signs with.
    elsewhere
        Returns STS's client in a region that every account has enabled; None if this is one.
    """

    def __init__(
        self,
        region: str,
        client: Callable[[str], Any],
        credentials: Callable[[], ReadOnlyCredentials],
        elsewhere: Callable[[], Any],
    ) -> None:
        self._region = region
        self._client = client
        self._credentials = credentials
        self._elsewhere = elsewhere
        self._identity: dict[str, str] | None = None
        #: The account that is expected; empty if none is.
        self._expected = ""
        self._refused = False
        self.forked()

    def forked(self) -> None:
        """Go on in a new process: nothing there holds a lock."""
        self._lock = threading.Lock()

    @property
    def account_id(self) -> str:
        """The number of the account, by AWS's answer, or before that the one that is expected."""
        if self._identity is None and not self._refused and self._expected:
            return self._expected
        return self._answer()["Account"]

    @property
    def arn(self) -> str:
        """The caller's ARN. Raises `AwsError`, also where another account was expected."""
        return self._answer()["Arn"]

    def expect(self) -> None:
        """Go by the account that the credentials name, or that the access key was of before, and
        ask AWS meanwhile. Nothing is to be made before `arn` has waited for the answer.
        """
        expected = self._cached()
        if self._identity is None and isinstance(expected, str):
            self._expected = expected
            # No thread starts at the end of a process: AWS is asked when needed.
            with suppress(RuntimeError):
                pool = ThreadPoolExecutor(1)
                pool.submit(self._answer)
                pool.shutdown(wait=False)

    def _answer(self) -> dict[str, str]:
        """Return AWS's answer, which needs no permission."""
        with self._lock:
            if self._identity is None:
                with self._refusals_explained():
                    identity = self._client("sts").get_caller_identity()
                    self._keep(identity["Account"])
                if self._expected not in ("", identity["Account"]):
                    self._refused = True
                    raise InvalidCredentials(
                        "the credentials belong to another account than expected",
                        given=f"{identity['Account']}; expected was {self._expected}",
                        advice="run it again; if AWS_ACCOUNT_ID is set, or the profile's "
                        "aws_account_id, correct it",
                    )
                self._identity = identity
            return self._identity

    def _cached(self) -> Any:
        # Making it refuses credentials that would ask for a code.
        endpoint = self._client("sts").meta.endpoint_url
        credentials = self._credentials()
        if credentials.account_id:
            return credentials.account_id
        cache = own_cache("callers", endpoint)
        return None if cache is None else cache.read(self._name(endpoint))

    def _keep(self, account: str | None) -> None:
        endpoint = self._client("sts").meta.endpoint_url
        cache, name = own_cache("callers", endpoint), self._name(endpoint)
        if cache is not None and cache.read(name) != account:
            cache.write(account, name)

    def _name(self, endpoint: str) -> str:
        """Return the name under which an access key's account is kept.

        AWS (documented): An access key of IAM or STS belongs to one account.
        https://docs.aws.amazon.com/STS/latest/APIReference/API_GetAccessKeyInfo.html
        """
        return hashlib.sha256(f"{endpoint} {self._credentials().access_key}".encode()).hexdigest()

    @contextmanager
    def _refusals_explained(self) -> Iterator[None]:
        try:
            yield
        except AwsError as error:
            # The next use of the account asks first, and raises what is wrong.
            self._refused = True
            if not isinstance(error, InvalidCredentials):
                raise
            self._keep(None)
            if self._is_valid_elsewhere():
                raise RegionUnusable(
                    "the account has not enabled this region: AWS accepts its credentials "
                    "elsewhere",
                    given=self._region,
                    advice=f"aws account enable-region --region-name {self._region}, which "
                    "takes minutes to hours; or choose another workspace.region",
                ) from error
            raise

    def _is_valid_elsewhere(self) -> bool:
        try:
            sts = self._elsewhere()
            if sts is not None:
                sts.get_caller_identity()
        except AwsError:
            return False
        return sts is not None
