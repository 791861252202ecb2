"""Policy, for programs: what a plan must not do, found in its JSON alone.

`evaluate` is the way in; `to_text`, `to_json` and `to_sarif` are the ways out.
"""

from terradask._plans.policy.checks import blocking, evaluate
from terradask._plans.policy.document import RoleRules
from terradask._plans.policy.findings import PolicyFinding, Severity, Waived
from terradask._plans.policy.scope import WorkspaceRules
from terradask._plans.policy.secrets import secrets_in_state
from terradask._plans.policy.team import cost_findings
from terradask._plans.policy.writers import summary, to_json, to_sarif, to_text

__all__ = [
    "PolicyFinding",
    "RoleRules",
    "Severity",
    "Waived",
    "WorkspaceRules",
    "blocking",
    "cost_findings",
    "evaluate",
    "secrets_in_state",
    "summary",
    "to_json",
    "to_sarif",
    "to_text",
]
