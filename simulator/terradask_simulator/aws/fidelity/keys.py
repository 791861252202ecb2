"""Refuse ids of keys, and describe keys, as KMS does.

AWS (recorded): KMS quotes a malformed key id, knows multi-Region ids of 32 digits, and refuses an
ARN of another region. tests/records/data/kms.json

moto says so in other words, or that the key doesn't exist.
"""

from __future__ import annotations

import re
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_ID = re.compile(r"(?i)(mrk-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32}")


def install() -> None:
    """Replace moto's check, and complete its description."""
    from moto.kms.exceptions import NotFoundException
    from moto.kms.models import Key
    from moto.kms.responses import KmsResponse

    @around(KmsResponse, "_validate_cmk_id")
    def validate(validate: Any, response: Any, key_id: str) -> None:
        if key_id.startswith("arn:"):
            region = key_id.split(":")[3]
            if region != response.region:
                raise NotFoundException(f"Invalid arn {region}")
        elif not _ID.fullmatch(key_id):
            raise NotFoundException(f"Invalid keyId '{key_id}'")
        elif key_id not in response.kms_backend.keys:
            raise NotFoundException(f"Key '{response._display_arn(key_id)}' does not exist")
        validate(response, key_id)

    @around(Key, "to_dict")
    def to_dict(described: Any, key: Any) -> Any:
        answer = described(key)
        answer["KeyMetadata"]["MultiRegion"] = bool(key.multi_region)
        return answer
