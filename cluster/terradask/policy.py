"""Policy, for programs: what a plan must not do, found in its JSON alone.

`evaluate` is the way in; `to_text`, `to_json` and `to_sarif` are the ways out.
"""

from terradask._policy.checks import blocking, evaluate
from terradask._policy.document import RoleRules
from terradask._policy.findings import PolicyFinding, Severity, Waived
from terradask._policy.scope import WorkspaceRules
from terradask._policy.secrets import secrets_in_state
from terradask._policy.team import cost_findings
from terradask._policy.writers import summary, to_json, to_sarif, to_text

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
