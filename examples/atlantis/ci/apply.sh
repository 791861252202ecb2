#!/usr/bin/env bash
# Apply the plans in PLANFILE, exactly those: terradask refuses when anything they were made from has changed since.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work" "$PLANFILE"' EXIT

tar --extract --gzip --file "$PLANFILE" --directory "$work"
cp "$work/terradask.lock.json" .

code=0
terradask apply --plan "$work/plan" --yes 2>&1 || code=$?
case "$code" in
5) echo "refused: something has changed since the review. Comment: atlantis plan" ;;
8) echo "refused: a policy stops this plan. Change it, or waive the finding in terradask.toml." ;;
esac
exit "$code"
