"""What can go wrong with the embedded AWS itself."""

from __future__ import annotations

from typing import Any

__all__ = ["EmbeddedAwsError"]


class EmbeddedAwsError(Exception):
    """The embedded AWS refuses something, and says why: none of the errors that AWS
    answers with.
    """

    def __init__(
        self,
        problem: str,
        *,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.given = given
        self.allowed = allowed
        self.advice = advice

    def __str__(self) -> str:
        """Return the problem with what was given, what is allowed and what to do."""
        named = {"given": self.given, "allowed": self.allowed, "to do": self.advice}
        return "\n".join(
            [
                self.problem,
                *(f"  {name}: {text}" for name, text in named.items() if text is not None),
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON knows them."""
        return {"error": type(self).__name__, **self.__dict__}
