"""US dollars as text: exact, with four digits, and rounded for people."""

from __future__ import annotations

from decimal import Decimal

_FOUR_DIGITS = Decimal("0.0001")


def exact_usd(usd: Decimal | None) -> str | None:
    """Return the exact amount, or None."""
    return None if usd is None else format(usd.normalize(), "f")


def usd_text(usd: Decimal) -> str:
    """Return an amount with four decimal places."""
    return format(usd.quantize(_FOUR_DIGITS), "f")


def shown_usd(usd: Decimal) -> str:
    """Return an amount to the cent, or a small one with four digits: ``$1,234.50``."""
    return f"${usd:,.2f}" if usd >= Decimal("0.1") or not usd else f"${usd_text(usd)}"
