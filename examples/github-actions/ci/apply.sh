#!/usr/bin/env bash
# Apply the plans in plan.sealed, exactly those: terradask refuses when anything they were made from has changed since.
set -euo pipefail
trap 'rm -rf plan plan.sealed' EXIT

python3 ci/seal.py open <plan.sealed |
	tar --extract --gzip plan terradask.lock.json

code=0
terradask apply --plan plan --yes || code=$?
case "$code" in
5) echo "refused: something has changed since the review. Plan again: open a pull request, an empty commit will do." >&2 ;;
8) echo "refused: a policy stops this plan. Change it, or waive the finding in terradask.toml." >&2 ;;
esac
exit "$code"
