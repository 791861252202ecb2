"""Base class of the simulator's errors."""

from __future__ import annotations

from typing import Any

__all__ = ["SimulatorError", "rebuilt"]


class SimulatorError(Exception):
    """The simulator refuses or fails a request to itself. Errors of the AWS API aren't of this
    class. The text has no control characters.

    Parameters
    ----------
    problem
        The failure, in one sentence.
    given
        The value that was given.
    allowed
        The values that are accepted.
    advice
        The next step.

    Notes
    -----
    Errors pickle with their fields.
    """

    problem: str
    given: Any
    allowed: str | None
    advice: str | None

    #: Exit code of the command line for this class.
    exit_code: int = 1

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
        """Return the problem with the given value, the allowed values and the advice."""
        named = {"given": self.given, "allowed": self.allowed, "to do": self.advice}
        lines = [f"  {name}: {text}" for name, text in named.items() if text is not None]
        # Control characters in quoted logs and names could rewrite a terminal's content.
        return "".join(
            letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
            for letter in "\n".join([self.problem, *lines])
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the fields: exceptions pickle only their positional arguments."""
        return rebuilt, (type(self), self.args, self.__dict__)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {"error": type(self).__name__, **self.__dict__}


def rebuilt(
    cls: type[SimulatorError], args: tuple[Any, ...], state: dict[str, Any]
) -> SimulatorError:
    """Return an error of a class from its fields."""
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error
