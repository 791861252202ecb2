"""IAM refuses tags outside of its own pattern, also of instance profiles.

moto looks at keys alone, takes line breaks and tabs for blanks, and at instance profiles' tags not
at all. The pattern and text:
https://docs.aws.amazon.com/IAM/latest/APIReference/API_Tag.html,
https://github.com/SWO-GS/auto-tag/issues/90
"""

from __future__ import annotations

import unicodedata
from typing import Any

__all__ = ["install"]

_SIGNS = frozenset("_.:/=+-@")


def install() -> None:
    """Replace moto's check of tags."""
    from moto.iam.models import IAMBackend

    verify = IAMBackend._tag_verification
    create_profile = IAMBackend.create_instance_profile
    tag_profile = IAMBackend.tag_instance_profile

    def verify_whole(backend: Any, tags: list[dict[str, str]]) -> Any:
        verified = verify(backend, tags)
        for number, tag in enumerate(tags, 1):
            _check(tag["Key"], f"tags.{number}.member.key", "+")
            _check(tag["Value"], f"tags.{number}.member.value", "*")
        return verified

    def create_instance_profile(
        backend: Any,
        name: str,
        path: str,
        role_names: list[str],
        tags: list[dict[str, str]] | None = None,
    ) -> Any:
        verify_whole(backend, tags or [])
        return create_profile(backend, name, path, role_names, tags)

    def tag_instance_profile(
        backend: Any, instance_profile_name: str, tags: list[dict[str, str]]
    ) -> Any:
        verify_whole(backend, tags)
        return tag_profile(backend, instance_profile_name, tags)

    IAMBackend._tag_verification = verify_whole
    IAMBackend.create_instance_profile = create_instance_profile
    IAMBackend.tag_instance_profile = tag_instance_profile


def _check(text: str, where: str, times: str) -> None:
    from moto.iam.exceptions import ValidationError

    if all(sign in _SIGNS or unicodedata.category(sign)[0] in "LZN" for sign in text):
        return
    raise ValidationError(
        f"1 validation error detected: Value '{text}' at '{where}' failed to satisfy constraint: "
        r"Member must satisfy regular expression pattern: [\p{L}\p{Z}\p{N}_.:/=+\-@]" + times
    )
