"""Fixtures of the tests that start the simulator."""

from tests.small_network import network

__all__ = ["network"]
