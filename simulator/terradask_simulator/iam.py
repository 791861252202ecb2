"""Prove a policy from what was asked for: policies, requests, and whether they are allowed."""

from terradask_simulator.aws.iam import (
    Decision,
    LoggedRequest,
    MalformedPolicy,
    Policies,
    Policy,
    Request,
    denied_by,
    entries,
    evaluate,
    minus_action,
    needless,
)

__all__ = [
    "Decision",
    "LoggedRequest",
    "MalformedPolicy",
    "Policies",
    "Policy",
    "Request",
    "denied_by",
    "entries",
    "evaluate",
    "minus_action",
    "needless",
]
