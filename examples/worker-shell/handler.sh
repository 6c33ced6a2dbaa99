#!/usr/bin/env bash
# A command for worker.sh, for demonstration: does as the payload on its standard input says, see examples/README.md. Put your work in its place.
set -euo pipefail

payload=$(cat)
case $payload in
  *'"slow"'*) sleep $((STINT_LEASE_SECONDS * 5 / 2)) ;;
  *'"poison"'*) echo 'poisoned: it fails at every attempt' >&2 && exit 1 ;;
  *'"fail-once"'*) ((STINT_ATTEMPT > 1)) || { echo 'the first attempt fails' >&2 && exit 1; } ;;
esac
echo "{\"attempt\":$STINT_ATTEMPT}"
