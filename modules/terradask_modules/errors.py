"""The base class of all of terradask's errors.

The tree continues in the packages that raise them; ``docs/python.md`` shows all of it.
"""

from __future__ import annotations

from typing import Any

from terradask_modules.ipython_tracebacks import render_in_ipython
from terradask_modules.tracebacks import plain


class TerradaskError(Exception):
    """An error with an explanation. Its text has no control characters.

    Parameters
    ----------
    problem
        What went wrong, in one sentence.
    given
        The value that was given, if one caused it.
    allowed
        Allowed values.
    advice
        What to do now.

    Notes
    -----
    Fields survive pickling, so that an error raised on a worker or in a subprocess arrives whole.
    """

    problem: str
    given: Any
    allowed: str | None
    advice: str | None

    #: Exit code of the command line for this class; see ``docs/cli.md``.
    exit_code: int = 1

    _is_shown_shortly = True

    def __init__(
        self,
        problem: str,
        *,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(plain(problem))
        self.problem = plain(problem)
        self.given = given
        self.allowed = allowed
        self.advice = advice

    def __str__(self) -> str:
        """Return the problem with what was given, what is allowed and what to do."""
        return plain(self._text())

    def _text(self) -> str:
        """Return the text; `__str__` removes control characters."""
        return in_lines(self.problem, self.given, self.allowed, self.advice)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the fields: exceptions pickle only their positional arguments."""
        return _rebuild, (type(self), self.args, self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows: the text, and the user's lines."""
        return render_in_ipython(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        own = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        return {"error": type(self).__name__, **own}


def in_lines(problem: str, given: object, allowed: str | None, advice: str | None) -> str:
    """Return a problem, and a line for each of the others that isn't None."""
    others = {"given": given, "allowed": allowed, "to do": advice}
    return "\n".join([problem, *(f"  {k}: {v}" for k, v in others.items() if v is not None)])


def _rebuild(
    cls: type[TerradaskError], args: tuple[Any, ...], state: dict[str, Any]
) -> TerradaskError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class InvalidInput(TerradaskError, ValueError):
    """A setting, an argument, or a file of them can't be used."""

    exit_code = 2


class SetupError(TerradaskError):
    """A program or package on this machine is missing or too old: install it."""

    exit_code = 3
