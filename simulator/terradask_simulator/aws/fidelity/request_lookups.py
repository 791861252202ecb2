"""What answers a request is looked up once for each host and each service.

moto lists its folders, and goes through the expressions of all services' addresses, twice for each
request, and through the methods of the class that answers it. Nothing but speed changes here.
"""

from __future__ import annotations

import functools

__all__ = ["install"]


def install() -> None:
    """Replace moto's lookups."""
    from moto.core import responses, utils
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    responses.method_names_from_class = functools.cache(utils.method_names_from_class)
    # Each bucket can be a host.
    DomainDispatcherApplication.get_backend_for_host = functools.lru_cache(1024)(
        DomainDispatcherApplication.get_backend_for_host
    )
