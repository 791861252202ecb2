"""IAM's own policy simulator, which moto lacks: what a user's or a role's policies say to actions.

https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from terradask_simulator.aws.iam.evaluation import Request, evaluate
from terradask_simulator.aws.iam.principals import find_entity

__all__ = ["install"]


def install() -> None:
    """Add what moto's IAM lacks."""
    from moto.iam.responses import IamResponse

    def simulate_principal_policy(response: Any) -> Any:
        """Answer SimulatePrincipalPolicy."""
        from moto.core.responses import ActionResult
        from moto.iam.exceptions import NoSuchEntity

        arn = response._get_param("PolicySourceArn")
        principal = find_entity(arn)
        if principal is None:
            raise NoSuchEntity(f"The policy source ARN {arn} doesn't exist.")
        context = {
            one["ContextKeyName"]: tuple(one["ContextKeyValues"])
            for one in response._get_param("ContextEntries") or []
        }
        requests = [
            Request(action, resource, {**principal.context, **context})
            for action in response._get_param("ActionNames")
            for resource in response._get_param("ResourceArns") or ["*"]
        ]
        results = list(_results(requests, principal))
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})

    IamResponse.simulate_principal_policy = simulate_principal_policy


def _results(requests: list[Request], principal: Any) -> Iterator[Mapping[str, Any]]:
    for request in requests:
        decision = evaluate(request, principal.policies)
        refusal = "implicitDeny" if decision.statement is None else "explicitDeny"
        yield {
            "EvalActionName": request.action,
            "EvalResourceName": request.resource,
            "EvalDecision": "allowed" if decision.allowed else refusal,
        }
