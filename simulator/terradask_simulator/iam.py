"""Prove a policy from recorded requests: policies, requests and decisions."""

from terradask_simulator.aws.iam.documents import MalformedPolicy, Policy
from terradask_simulator.aws.iam.evaluation import Decision, Policies, Request, evaluate
from terradask_simulator.aws.iam.log import LoggedRequest
from terradask_simulator.aws.iam.proof import denied_by, entries, minus_action, needless

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
