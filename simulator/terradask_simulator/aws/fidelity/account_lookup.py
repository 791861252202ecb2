"""The account of an access key is looked up where keys are.

moto makes IAM for each of AWS's partitions at the first call, with 1,500 managed policies each,
only to find no key there. Nothing but speed changes here.
"""

from __future__ import annotations

__all__ = ["install"]


def install() -> None:
    """Replace moto's lookup."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.iam import models

    def get_account_id_from(access_key: str) -> str:
        for account_id, partitions in list(models.iam_backends.items()):
            if any(access_key in backend.access_keys for backend in list(partitions.values())):
                return str(account_id)
        return str(DEFAULT_ACCOUNT_ID)

    models.get_account_id_from = get_account_id_from
