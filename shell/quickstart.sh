#!/usr/bin/env bash
# The whole loop on a laptop, for real: two CPU cores, no GPU, no key, no network service; ten minutes or so.
#
#   shell/quickstart.sh [RUN]      RUN defaults to runs/quickstart; a second call goes on where the first was
#
# 1. a virtual environment with the toolkit and CPU torch
# 2. the laptop policy: a 0.5 M-parameter language model, taught the `desk` environment unevenly
# 3. D_0: tasks from unguided exploration
# 4. the loop, and beside it a static twin: same policy, same steps, D_0 only
# 5. both on held-out tasks: what the loop changed, with intervals
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run=${1:-$ROOT/runs/quickstart}
install local

mkdir -p "$run"
[ -e "$run/policy/config.json" ] || { say "building the laptop policy (two to three minutes)"; coevolve bootstrap -o "$run/policy" --seed 0; }
for split in dev heldout; do
    [ -e "$run/$split.jsonl" ] || coevolve env tasks desk --split "$split" -o "$run/$split.jsonl"
done

laptop="--lr 3e-4 --beta 0.005 --temperature 1 --drop-zero-variance"
arm() { "$ROOT/shell/train_loop.sh" "$run/$1" --arm "$2" --model "$run/policy" --tasks "$run/tasks.jsonl" --iterations 10 --steps 6 --train "$laptop"; }

measure() { # measure NAME POLICY SPLIT
    [ -e "$run/$1.$3.jsonl" ] || coevolve rollout "$run/$3.jsonl" --model "$2" --temperature 1 --seed 1 --quiet -o "$run/$1.$3.jsonl"
}

[ -e "$run/tasks.jsonl" ] || {
    say "D_0: tasks from curious exploration, without any signal"
    coevolve explore --env desk --mode curious --episodes 128 --seed 7 | coevolve abstract --per-exploration 1 | coevolve validate | coevolve merge -o "$run/tasks.jsonl"
}

say "the loop and its static twin, side by side"
arm static static > "$run/static.txt" 2>&1 &
static=$!
arm loop guided
wait "$static"

say "measuring on held-out tasks"
measure base "$run/policy" dev
measure base "$run/policy" heldout &
measure loop "$run/loop/policy" heldout
wait
measure static "$run/static/policy" heldout
