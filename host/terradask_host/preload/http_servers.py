"""Dask's HTTP server of a scheduler, moved to a socket that only its host's user can open.

It has no authentication, and a port of loopback would be open to every session of Session Manager
and to all users of the machine.
"""

from __future__ import annotations

from typing import Any

from terradask_host.http_proxy.pipes import short

_MODE = 0o600


def at_socket(cls: type, path: str, port: int) -> type:
    """Return a subclass of a scheduler's class whose HTTP server listens at a socket.

    `port` is the forward's, which Dask reports to its clients.
    """

    class AtSocket(cls):  # type: ignore[misc]  # the class is named by the cluster's settings
        def start_http_server(self, routes: Any, *_: Any, **__: Any) -> None:
            from tornado.netutil import bind_unix_socket

            make_server(self, routes, port=port)
            self.http_server.add_socket(bind_unix_socket(short(path), mode=_MODE))
            self.services["dashboard"] = self.http_server

    return named_like(cls, AtSocket)


def named_like(cls: type, subclass: type) -> type:
    """Return a subclass with the names of its class."""
    subclass.__name__, subclass.__qualname__ = cls.__name__, cls.__qualname__
    subclass.__module__ = cls.__module__
    return subclass


def make_server(server: Any, routes: Any, *, port: int) -> None:
    """Create the HTTP server of a Dask server without listening; Dask's pages show `port`."""
    from distributed.http.routing import RoutingApplication
    from tornado.httpserver import HTTPServer

    server.http_application = RoutingApplication(routes)
    server.http_server = HTTPServer(server.http_application)
    server.http_server.port = port
