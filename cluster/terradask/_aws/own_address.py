"""Find this machine's public address: "me" in ingress rules."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, build_opener

from terradask.errors import EndpointUnreachable

_SECONDS = 10.0
#: An address is far shorter.
_MOST_BYTES = 200
_INSTEAD = (
    "name your address yourself, allow_ingress_from='203.0.113.7/32', or reach the scheduler with "
    "no inbound rule: connect='ssm'; workspace.own_address_url names the service"
)


class _NoRedirect(HTTPRedirectHandler):
    """Refuse redirects to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def own_cidr(url: str, advice: str = _INSTEAD) -> str:
    """Return this machine's address, as ``203.0.113.7/32``. Raises `EndpointUnreachable`, with the
    advice, by default for Python.
    """
    try:
        with build_opener(_NoRedirect).open(url, timeout=_SECONDS) as answer:
            text = answer.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except (OSError, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()
        raise EndpointUnreachable(
            "Your own address can't be found: the service doesn't answer.",
            given=f"{url}: {getattr(error, 'reason', error)}",
            advice=advice,
        ) from error
    try:
        address = ip_address(text)
    except ValueError as error:
        raise EndpointUnreachable(
            "Your own address can't be found: the service's answer is not an address.",
            given=f"{url}: {text[:60]!r}",
            advice=advice,
        ) from error
    if not isinstance(address, IPv4Address):
        raise EndpointUnreachable(
            "Your own address is IPv6, but schedulers are reached over IPv4.",
            given=str(address),
            allowed="an IPv4 address",
            advice=advice,
        )
    return f"{address}/32"
