#!/usr/bin/env bash
# Plan every stack that has changed. Leaves report/, which may be shown, and plan.sealed: the plans hold what the state holds, so they leave this
# machine encrypted alone.
set -euo pipefail
trap 'rm -rf plan' EXIT

code=0
terradask plan --changed-only --out plan >/dev/null || code=$?

if [ -f plan/report.json ]; then
	mkdir -p report
	cp plan/report.md plan/report.json report/
fi
[ "$code" = 0 ] || exit "$code"
if grep -q '"verdict": "blocked"' plan/report.json; then
	echo "blocked by policy: the report says by what. Change it, or waive the finding in terradask.toml." >&2
	exit 8
fi

# The locked answers belong to the plan: zones and image as they were reviewed.
tar --create --gzip plan terradask.lock.json |
	python3 ci/seal.py seal >plan.sealed
