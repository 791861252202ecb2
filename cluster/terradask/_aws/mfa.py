"""Profiles that ask for a code of an MFA device, once for every program that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask.errors import NoCredentials

if TYPE_CHECKING:
    from boto3.session import Session


def refuse_mfa(session: Session, method: str) -> None:
    """Refuse a role's profile that asks for a code. Raises `NoCredentials`.

    boto3 would ask at each new session, and Terraform's provider can't ask at all:
    https://github.com/hashicorp/terraform-provider-aws/issues/2420

    Parameters
    ----------
    session
        The session, whose credentials are known but not yet used.
    method
        How boto3 gets them.
    """
    if method != "assume-role":
        return
    # boto3 has no public name for its configuration.
    device = session._session.get_scoped_config().get("mfa_serial")
    if device is None:
        return
    profile = session.profile_name
    raise NoCredentials(
        "the profile asks for a code of an MFA device, which Terraform can't ask for",
        given=f"{profile}: mfa_serial = {device}",
        allowed="credentials that need no code any more",
        advice=(
            "enter the code first, for this terminal: "
            f'eval "$(aws configure export-credentials --profile {profile} --format env)"; '
            "unset AWS_PROFILE"
        ),
    )
