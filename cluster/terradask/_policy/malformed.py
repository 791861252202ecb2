"""A plan, or a stack, whose JSON isn't what Terraform documents: refused whole, since what can't be read can't be judged."""

from __future__ import annotations

from terradask_modules.errors import InvalidInput, TerradaskError

#: What reading the wrong shape raises.
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError)


def unreadable_plan(error: BaseException) -> TerradaskError:
    """Return the error to raise for one of `UNREADABLE`; nothing of the plan stands in it."""
    if isinstance(error, TerradaskError):
        return error
    return InvalidInput(
        "the plan can't be read: its JSON isn't as Terraform documents it",
        given=type(error).__name__,
        allowed="what terraform show -json PLAN prints, or a synthesised cdk.tf.json",
        advice="plan again; if it stays so, the version of Terraform is one that terradask doesn't know",
    )
