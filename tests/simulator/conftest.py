"""Fixtures of the tests that run against the embedded AWS."""

from ..small_network import network

__all__ = ["network"]
