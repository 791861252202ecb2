"""Whose the key of the network's state is, which no plan shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask.errors import InvalidInput

if TYPE_CHECKING:
    from terradask_stacks.loading import LoadedSettings


def check_state_key(loaded: LoadedSettings, account: str) -> None:
    """Refuse a key of another account that the settings file alone names: its author could be the
    key's owner, and make the state unreadable. Raises `InvalidInput`.
    """
    state = loaded.settings.state
    if state.kms_key_arn is None or not loaded.is_of_file("state.kms_key_arn"):
        return
    trusted = {account, state.owner_for(account)}
    if state.kms_key_arn.split(":")[4] in trusted:
        return
    raise InvalidInput(
        "the key for the network's state belongs to another AWS account: its owner could make the "
        "state unreadable",
        given=f"state.kms_key_arn, {state.kms_key_arn}",
        allowed=f"a key of account {' or '.join(sorted(trusted))}",
        advice="if you don't know the other account: leave out state.kms_key_arn in "
        "terradask.toml; if it is your team's: set TERRADASK_STATE__KMS_KEY_ARN to this ARN",
    )
