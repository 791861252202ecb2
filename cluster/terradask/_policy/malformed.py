"""A plan or stack whose JSON isn't as documented: refused, since it can't be checked."""

from __future__ import annotations

from terradask_modules.errors import InvalidInput, TerradaskError

#: The exceptions of reading JSON with the wrong structure.
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError)


def unreadable_plan(error: BaseException) -> TerradaskError:
    """Return the error to raise for one of `UNREADABLE`; it contains nothing of the plan."""
    if isinstance(error, TerradaskError):
        return error
    return InvalidInput(
        "the plan can't be read: its JSON isn't as Terraform documents it",
        given=type(error).__name__,
        allowed="what terraform show -json PLAN prints, or a synthesised cdk.tf.json",
        advice=(
            "plan again; if the error remains, terradask doesn't support this version of Terraform"
        ),
    )
