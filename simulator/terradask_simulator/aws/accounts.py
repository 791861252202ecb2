"""Other accounts beside the one of the embedded AWS's owner.

AWS (documented): Organizations makes a role OrganizationAccountAccessRole in an account that it
creates, which its own account's callers may assume, and which may do everything.
https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_accounts_access.html
"""

from __future__ import annotations

import json

from terradask_simulator.aws.backend import ACCOUNT, ACCOUNTS, STATE_LOCK
from terradask_simulator.aws.errors import SimulatorError

__all__ = ["ACCESS_ROLE", "add_account"]

ACCESS_ROLE = "OrganizationAccountAccessRole"

_EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


def add_account(account: str) -> None:
    """Add an account with the role that administers it."""
    from moto.iam.models import iam_backends

    if not (len(account) == 12 and account.isdigit()):
        raise SimulatorError("This is no number of an account", given=account, allowed="12 digits")
    with STATE_LOCK:
        if account in ACCOUNTS:
            return
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
                    "Action": "sts:AssumeRole",
                }
            ],
        }
        iam = iam_backends[account]["aws"]
        iam.create_role(
            ACCESS_ROLE,
            json.dumps(trust),
            path="/",
            permissions_boundary=None,
            description="",
            tags=[],
            max_session_duration="3600",
        )
        iam.put_role_policy(ACCESS_ROLE, "AdministratorAccess", json.dumps(_EVERYTHING))
        ACCOUNTS.append(account)
