#!/usr/bin/env bash
# Plan every stack that has changed, and print the report, which Atlantis puts into its comment. Plans and locked answers go into one file, PLANFILE: Atlantis
# takes every other *.tfplan in the repository for a plan of its own.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

code=0
terradask plan --changed-only --out "$work/plan" >/dev/null 2>"$work/messages" || code=$?
if [ -f "$work/plan/report.md" ]; then
	cat "$work/plan/report.md"
else
	cat "$work/messages"
fi
[ "$code" = 0 ] || exit "$code"
if grep -q '"verdict": "blocked"' "$work/plan/report.json"; then
	echo "blocked by policy: change it, or waive the finding in terradask.toml."
	exit 8
fi

# The locked answers belong to the plan: zones and image as they were reviewed.
cp terradask.lock.json "$work/"
(umask 077 && tar --create --gzip --file "$PLANFILE" --directory "$work" plan terradask.lock.json)
