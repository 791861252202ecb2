"""A trust policy for roles that nobody assumes; IAM refuses a role without one."""

from __future__ import annotations

import json

__all__ = ["TRUST"]

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
