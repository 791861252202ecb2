"""A rule about who reaches schedulers, as security groups take it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ingress:
    """Clients at these addresses may reach schedulers on these ports (first and last)."""

    ports: tuple[int, int]
    cidr: str
    description: str
