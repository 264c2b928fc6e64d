#!/usr/bin/env bash
# The step of the GitHub Action (action.yml) that runs a campaign. Its inputs are in the environment:
# ACKPROOF (the program), CAMPAIGN, SYSTEM, SEED, FAIL_ON and RESULTS. GITHUB_STEP_SUMMARY and
# GITHUB_OUTPUT are files of the runner.
set -uo pipefail

case "$FAIL_ON" in
  broken | inconclusive) ;;
  *) echo "::error title=Ackproof::fail-on is broken or inconclusive, not '$FAIL_ON'"; exit 2 ;;
esac

arguments=("$CAMPAIGN" --out "$RESULTS")
[ -z "$SYSTEM" ] || arguments+=(--system "$SYSTEM")
[ -z "$SEED" ] || arguments+=(--seed "$SEED")
"$ACKPROOF" run "${arguments[@]}"
status=$?

verdict=
if [ -f "$RESULTS/verdict.json" ]; then
  "$ACKPROOF" report "$RESULTS" --format markdown >> "$GITHUB_STEP_SUMMARY"
  "$ACKPROOF" report "$RESULTS" --format github
  verdict=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' \
    "$RESULTS/verdict.json")
else
  echo "::error title=Ackproof::the campaign was not checked: exit status $status"
fi
{
  echo "verdict=$verdict"
  echo "status=$status"
  echo "report=$RESULTS/report.html"
} >> "$GITHUB_OUTPUT"

# 3: too little evidence; 4: an expectation was not met. Without a verdict every failure counts.
if [ "$FAIL_ON" = broken ] && [ -n "$verdict" ] && { [ "$status" = 3 ] || [ "$status" = 4 ]; }; then
  exit 0
fi
exit "$status"
