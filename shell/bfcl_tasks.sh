#!/usr/bin/env bash
# Synthetic multi-turn tasks for BFCL, from nothing but a seed; no model, a minute or so (70 s on
# two busy cores).
#
#   shell/bfcl_tasks.sh [SEED] [EPISODES] > tasks.jsonl
#   (SEED 1, 150 episodes: over 500 validated tasks of 1 to 5 turns)
#
# What they cover goes to stderr as a JSON object (tests/benchmarks/bfcl_tasks.py). Nothing of them
# is an official task:
# start states are generated, and `validate` refuses whatever begins, reads or ends like one.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
install dev
tasks=$(mktemp)
trap 'rm -f "$tasks"' EXIT

coevolve env install bfcl
coevolve explore --env bfcl --mode curious --episodes "${2:-150}" --seed "${1:-1}" \
    | coevolve abstract | coevolve validate | coevolve merge --max-share 1 > "$tasks"
python "$ROOT/tests/benchmarks/bfcl_tasks.py" "$tasks" >&2
cat "$tasks"
