"""Processor architectures, as EC2 names them."""

from __future__ import annotations

import re
from typing import Literal

Architecture = Literal["x86_64", "arm64"]

# AWS (documented): EC2's ARM types have the letter g directly behind the generation, as in m7g or
# c6gn, or are of the family a1.
# https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
_ARM_TYPE = re.compile(r"([a-z]+[0-9]+g[a-z]*|a1)\.")


def is_arm_name(instance_type: str) -> bool:
    """Return whether an instance type is ARM by its name; only EC2's description is certain."""
    return _ARM_TYPE.match(instance_type) is not None
