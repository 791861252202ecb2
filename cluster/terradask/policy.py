"""Policy, for programs: findings on a plan, from its JSON alone.

- `evaluate` returns each `PolicyFinding` of a plan, with its `Severity`, and `Waived` if a waiver
  covers it. It compares the plan with `RoleRules` and `WorkspaceRules`, if they are given; these
  have each `DataBucket`, `TaskRight` and `TaskPolicy` of the settings.
- `cost_findings` checks an estimate, `secrets_in_state` a state.
- `blocking` returns the findings that stop an apply; `summary`, `to_text`, `to_json` and `to_sarif`
  write findings.
"""

from terradask._plans.policy.checks import blocking, evaluate
from terradask._plans.policy.document import RoleRules
from terradask._plans.policy.findings import PolicyFinding, Severity, Waived
from terradask._plans.policy.scope import WorkspaceRules
from terradask._plans.policy.secrets import secrets_in_state
from terradask._plans.policy.team import cost_findings
from terradask._plans.policy.writers import summary, to_json, to_sarif, to_text
from terradask_modules.task_rights import DataBucket, TaskPolicy, TaskRight

__all__ = [
    "DataBucket",
    "PolicyFinding",
    "RoleRules",
    "Severity",
    "TaskPolicy",
    "TaskRight",
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
