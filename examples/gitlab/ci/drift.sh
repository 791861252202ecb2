#!/usr/bin/env bash
# Say what was changed outside Terraform, in the stacks named or in all; exit code 2 when there is something.
set -euo pipefail

code=0
terradask drift "$@" --format markdown >drift.md || code=$?
cat drift.md >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
exit "$code"
