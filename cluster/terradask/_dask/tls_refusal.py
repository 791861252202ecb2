"""Why TLS fails with a scheduler that answers, as clocks and certificates say it. Pure."""

from __future__ import annotations

import datetime
import ssl

from terradask._common.clock import utc_text

#: OpenSSL's codes of a certificate outside its time, and the alerts by which the other end refuses
#: one: https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/
_OUTSIDE_ITS_TIME = frozenset({9, 10})
_ALERTS = ("ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_EXPIRED", "ALERT_CERTIFICATE_UNKNOWN")

#: Clocks that are kept differ by less.
_KEPT_SECONDS = 60.0


def tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return TLS's error in the chain of a connection's; None if it failed for something else."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ssl.SSLError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def why_refused(
    error: BaseException, certificate: str, *, ahead_seconds: float, here: datetime.datetime
) -> str | None:
    """Return what the clocks have to do with a connection that failed; None if they don't explain
    it.

    `certificate`: the client's, PEM; all of a run are valid for the same time. `ahead_seconds`: how
    far this machine's clock is ahead of AWS's, which instances have; `here`: the time by it.
    """
    found = tls_error(error)
    if found is None or not (
        getattr(found, "verify_code", None) in _OUTSIDE_ITS_TIME
        or any(alert in (found.reason or "") for alert in _ALERTS)
    ):
        return None
    from cryptography import x509

    made = x509.load_pem_x509_certificate(certificate.encode())
    first, last = made.not_valid_before_utc, made.not_valid_after_utc
    at_aws = here - datetime.timedelta(seconds=ahead_seconds)
    clocks = f"it is {utc_text(here)} here, and {utc_text(at_aws)} at AWS"
    if min(here, at_aws) < first:
        return f"the certificates of this run are valid from {utc_text(first)} on, and {clocks}"
    if max(here, at_aws) > last:
        return f"the certificates of this run were valid until {utc_text(last)}, and {clocks}"
    return (
        f"this machine's clock is wrong: {clocks}" if abs(ahead_seconds) > _KEPT_SECONDS else None
    )
