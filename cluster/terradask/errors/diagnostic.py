"""An error or a warning of Terraform's, structured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnostic:
    """An error or a warning of Terraform's.

    Parameters
    ----------
    severity
        ``error`` or ``warning``.
    summary
        What went wrong, as Terraform puts it.
    detail
        The long form; often empty.
    address
        The resource or provider it is about.
    filename, line
        Where in the configuration it comes from.
    """

    severity: str
    summary: str
    detail: str = ""
    address: str | None = None
    filename: str | None = None
    line: int | None = None

    @property
    def text(self) -> str:
        """Summary and detail in one."""
        return f"{self.summary}\n{self.detail}".strip()
