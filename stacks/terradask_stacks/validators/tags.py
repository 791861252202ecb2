"""Validate tags: every resource of a workspace gets them, so the strictest service decides.

AWS (documented, iam-tags): IAM takes values of tags of up to 256 letters, digits, spaces and
_ . : / = + - @, and keys without regard to case.
https://docs.aws.amazon.com/IAM/latest/APIReference/API_Tag.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html

AWS (documented, imds-tag-keys): EC2 serves tags in the instance metadata service only if their keys
have neither blanks nor slashes, and aren't ".", ".." or "_index".
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html

AWS (documented, ec2-tags): EC2 takes 50 tags for a resource, with keys of up to 127 characters.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Tag.html
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from terradask_stacks.validators.refusal import refuse

#: terradask and the group's run use up to ten more. AWS (ec2-tags)
MAX_USER_TAGS = 40
MAX_VALUE_LENGTH = 256

_KEY = re.compile(r"^[A-Za-z0-9+\-=._:@]{1,127}$")
#: AWS (imds-tag-keys)
_RESERVED_KEYS = frozenset({".", "..", "_index"})
#: AWS (iam-tags)
_SIGNS = frozenset("_.:/=+-@")
_CATEGORIES = "LZN"


def check_tags(tags: dict[str, str]) -> dict[str, str]:
    """Return tags that all of AWS's services, and the instance metadata service, accept."""
    for key, value in tags.items():
        if not _KEY.fullmatch(key) or key in _RESERVED_KEYS:
            raise refuse(
                f"the tag key {key!r} can't be used",
                allowed="1 to 127 letters of ASCII, digits and + - = . _ : @; no comma, which IAM "
                "refuses, no blank and no slash, with which AWS launches no hosts, because tags "
                "are in the instance metadata",
            )
        if key.lower().startswith(("aws:", "terradask:")):
            raise refuse(
                f"the tag key {key!r} begins with a reserved prefix",
                allowed="keys that don't begin with aws: or terradask:",
            )
        wrong = sorted({sign for sign in value if not _is_taken(sign)})
        if wrong:
            raise refuse(
                f"the value of the tag {key!r} can't be used: IAM refuses "
                f"{', '.join(map(repr, wrong))}",
                allowed="letters, digits, blanks and + - = . _ : / @; no comma, line break or tab",
            )
        if len(value) > MAX_VALUE_LENGTH:
            raise refuse(
                f"the value of the tag {key!r} has {len(value)} characters",
                allowed=f"{MAX_VALUE_LENGTH} at most",
            )
    check_together(tags)
    return tags


def check_together(keys: Iterable[str]) -> None:
    """Refuse keys that no resource can have at once: too many, or alike but for their case."""
    by_lower: dict[str, str] = {}
    for key in keys:
        other = by_lower.setdefault(key.lower(), key)
        if other != key:
            raise refuse(
                f"the tags {other!r} and {key!r} differ in case alone",
                allowed="either of them: IAM takes them for the same key, and refuses both",
            )
    if len(by_lower) > MAX_USER_TAGS:
        raise refuse(
            f"{len(by_lower)} tags are too many",
            allowed=f"{MAX_USER_TAGS}; AWS allows 50, terradask needs the rest",
        )


def _is_taken(sign: str) -> bool:
    return sign in _SIGNS or unicodedata.category(sign)[0] in _CATEGORIES
