"""Check each request to moto against the caller's policies, and refuse it as AWS does."""

from __future__ import annotations

import datetime
import logging

from terradask_simulator.aws.backend import account_in
from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.documents import Policy
from terradask_simulator.aws.iam.evaluation import Decision, Policies, Request, evaluate
from terradask_simulator.aws.iam.log import RequestLog
from terradask_simulator.aws.iam.mapping import context_of, needs_of
from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.principals import Principal, find_principal
from terradask_simulator.aws.iam.refusals import Refusal, access_denied, unknown_key
from terradask_simulator.aws.iam.world import World

__all__ = ["Gate"]

_log = logging.getLogger(__name__)


class Gate:
    """Checks requests; those with the simulator's own credentials are only logged."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.log = RequestLog()

    def check(self, operation: Operation) -> Refusal | None:
        """Return the error for a refused request, or None. Call it with the state's lock held."""
        principal = find_principal(operation.access_key, self._owner)
        if principal is None or (principal.is_session and _not_by_session(operation)):
            return unknown_key(operation)
        # Without a policy: the owner, of the embedded AWS's own account.
        world = World(operation.region, account=account_in(principal.arn))
        common = _common(operation, principal)
        for need in needs_of(operation, world):
            owned = common | _owner(world.account_of(need.resource))
            request = Request(need.action, need.resource, context_of(need, owned), principal.arn)
            if not reference.is_known(need.action):
                _log.error("%s isn't in AWS's service authorization reference", need.action)
            decision = _decide(request, principal, world)
            self.log.record(
                principal.entity,
                _name(operation, need.action),
                request,
                allowed=decision.allowed,
            )
            if not decision.allowed:
                refusal = access_denied(operation, request, decision, need.refusal)
                _log.warning("refused: %s", refusal.message)
                return refusal
        return None


def _not_by_session(operation: Operation) -> bool:
    """Return whether an operation is refused to a user's session without MFA.

    AWS (documented): STS GetSessionToken's credentials can't call IAM without MFA, nor STS but for
    AssumeRole and GetCallerIdentity.
    https://docs.aws.amazon.com/STS/latest/APIReference/API_GetSessionToken.html
    """
    # STS rejects nested sessions itself.
    allowed = {"AssumeRole", "GetCallerIdentity", "GetSessionToken"}
    return operation.service == "iam" or (
        operation.service == "sts" and operation.name not in allowed
    )


def _decide(request: Request, principal: Principal, world: World) -> Decision:
    if not principal.entity:
        return Decision(True, "the simulator's own credentials")
    held = principal.policies
    document = world.resource_policy(request.action, request.resource)
    resource = None if document is None else Policy.parse(document, "the resource's own policy")
    return evaluate(request, Policies(held.identity, held.boundary, held.session, resource))


def _owner(account: str | None) -> dict[str, tuple[str, ...]]:
    """Return the condition key of the account that owns a resource."""
    return {} if account is None else {"aws:ResourceAccount": (account,)}


def _name(operation: Operation, action: str) -> str:
    return f"{operation.service}:{operation.name}" if operation.name else action


def _common(operation: Operation, principal: Principal) -> dict[str, tuple[str, ...]]:
    now = datetime.datetime.now(datetime.UTC)
    return {
        "aws:CurrentTime": (f"{now:%Y-%m-%dT%H:%M:%SZ}",),
        "aws:EpochTime": (str(int(now.timestamp())),),
        "aws:RequestedRegion": (operation.region,),
        # Loopback counts as TLS.
        "aws:SecureTransport": ("true",),
        "aws:SourceIp": (operation.source_address,),
        "aws:UserAgent": (operation.headers.get("user-agent", ""),),
        "aws:ViaAWSService": ("false",),
        **principal.context,
    }
