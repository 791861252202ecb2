"""Write the findings of report.json as SARIF, a file for each stack."""

import json
import sys
from pathlib import Path

from terradask.policy import PolicyFinding, Waived, to_sarif

folder = Path(sys.argv[1])
report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
for stack, plan in report["stacks"].items():
    findings = [PolicyFinding(**{**found, "waived": found["waived"] and Waived(**found["waived"])}) for found in plan["findings"]]
    text = to_sarif(findings, version=report["context"]["terradask_version"], stack=stack)
    (folder / f"{stack}.sarif").write_text(text, encoding="utf-8")
