"""IAM's own policy simulator, which moto lacks.

AWS (documented): IAM's simulator evaluates policies for actions, resources and context, and names
missing context.
https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html,
https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulateCustomPolicy.html

Responses have the form of recorded responses of AWS, in ``radkawar/stackd`` on GitHub
(``testdata/aws/iam/simulation_inputs.json``): each action has one result, with one per resource. An
action on a resource type that it doesn't support is ``implicitDeny``, regardless of policies; an
unknown action is evaluated on any resource.

AWS (recorded): IAM's simulator evaluates S3's actions on objects also on the ARN of a bucket, and
names the statements that decided. tests/records/data/iam.json

The positions of those statements in their policies are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from terradask_simulator.aws.fidelity.patching import add
from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.documents import MalformedPolicy, Policy
from terradask_simulator.aws.iam.evaluation import Policies, Request, evaluate
from terradask_simulator.aws.iam.principals import find_entity

__all__ = ["install"]


def install() -> None:
    """Add both calls to moto's IAM."""
    from moto.iam.responses import IamResponse

    # As a patch: simulator/upstream/release/iam-simulate-policies.patch
    def simulate_principal_policy(response: Any) -> Any:
        """Answer SimulatePrincipalPolicy."""
        from moto.iam.exceptions import NoSuchEntity

        arn = response._get_param("PolicySourceArn")
        principal = find_entity(arn)
        if principal is None:
            raise NoSuchEntity(f"The policy source ARN {arn} doesn't exist.")
        return _answer(response, principal.policies, principal.context)

    def simulate_custom_policy(response: Any) -> Any:
        """Answer SimulateCustomPolicy."""
        from moto.iam.exceptions import ValidationError

        try:
            policies = tuple(map(Policy.parse, response._get_param("PolicyInputList") or []))
        except MalformedPolicy as error:
            raise ValidationError(str(error)) from error
        return _answer(response, Policies(identity=policies), {})

    add(IamResponse, simulate_principal_policy, simulate_custom_policy)


def _answer(response: Any, policies: Policies, carried: Mapping[str, tuple[str, ...]]) -> Any:
    context = dict(carried) | {
        one["ContextKeyName"]: tuple(one["ContextKeyValues"])
        for one in response._get_param("ContextEntries") or []
    }
    resources = response._get_param("ResourceArns") or ["*"]
    results = [
        _result(action, list(_decisions(action, resources, context, policies)))
        for action in response._get_param("ActionNames")
    ]
    return {"EvaluationResults": results, "IsTruncated": False}


class _Decided(NamedTuple):
    resource: str
    decision: str
    #: The policy whose statement decided; empty without one.
    policy: str = ""

    def described(self) -> dict[str, Any]:
        matched = {"SourcePolicyId": self.policy, "SourcePolicyType": "IAM Policy"}
        return {
            "MatchedStatements": [matched] if self.policy else [],
            "MissingContextValues": [],
        }


def _decisions(
    action: str, resources: list[str], context: Mapping[str, tuple[str, ...]], policies: Policies
) -> Iterator[_Decided]:
    for resource in resources:
        if not _fits(action, resource):
            yield _Decided(resource, "implicitDeny")
            continue
        decision = evaluate(Request(action, resource, context), policies)
        refusal = "implicitDeny" if decision.statement is None else "explicitDeny"
        matched = "" if decision.statement is None else decision.policy
        yield _Decided(resource, "allowed" if decision.allowed else refusal, matched)


def _fits(action: str, resource: str) -> bool:
    in_s3 = action.startswith("s3:") and resource.startswith("arn:aws:s3:::")
    return resource == "*" or in_s3 or reference.fits(action, resource)


def _result(action: str, decisions: list[_Decided]) -> Mapping[str, Any]:
    results = {one.decision for one in decisions}
    overall = next(one for one in ("explicitDeny", "implicitDeny", "allowed") if one in results)
    first, *others = decisions
    decisive = next(one for one in decisions if one.decision == overall)
    result = {
        "EvalActionName": action,
        "EvalResourceName": reference.pattern(action) if others else first.resource,
        "EvalDecision": overall,
        "EvalDecisionDetails": {},
        **decisive.described(),
    }
    if not others and first.resource == "*":
        return result
    return {
        **result,
        "ResourceSpecificResults": [
            {
                "EvalResourceName": one.resource,
                "EvalResourceDecision": one.decision,
                **one.described(),
            }
            for one in decisions
        ],
    }
