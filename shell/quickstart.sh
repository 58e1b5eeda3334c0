#!/usr/bin/env bash
# The whole loop on a laptop, for real: two CPU cores, no GPU, no key, no network service; ten
# minutes or so.
#
#   shell/quickstart.sh [RUN]      (runs/quickstart) a second call goes on where the first was
#
# 1. a virtual environment with the toolkit and CPU torch
# 2. the laptop policy: a 0.5 M-parameter language model, taught the `desk` environment unevenly
# 3. D_0: tasks from curious exploration, without any signal
# 4. the loop, and beside it a static twin: same policy, same steps, D_0 only
# 5. both on held-out tasks: what the loop changed, with intervals
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run=${1:-$ROOT/runs/quickstart}
install local

mkdir -p "$run"
[ -e "$run/policy/config.json" ] || {
    say "building the laptop policy (two to three minutes)"
    coevolve bootstrap -o "$run/policy" --seed 0
}
for split in dev heldout; do
    [ -e "$run/$split.jsonl" ] ||
        coevolve env tasks desk --split "$split" -o "$run/$split.jsonl" 2> /dev/null
done

arm() { # arm NAME MODE: the loop with new tasks made in this way; its report
    "$ROOT/shell/train_loop.sh" "$run/$1" --config "$ROOT/shell/loops/laptop.toml" --arm "$2" \
        --model "$run/policy" --tasks "$run/tasks.jsonl"
}
measure() { # measure NAME POLICY SPLIT: one sampled attempt at every task
    stage "$run/$1.$3.jsonl" rollout "$run/$3.jsonl" --model "$2" --temperature 1 --seed 1
}
compare() { # compare NAME [OTHER]: success of NAME, and its paired difference to OTHER
    coevolve evaluate "$run/$1.heldout.jsonl" ${2:+--against "$run/$2.heldout.jsonl"} \
        --weak-by "$run/base.dev.jsonl" --by none --mean kinds -o /dev/null
}

say "D_0: tasks from curious exploration, without any signal"
mkdir -p "$run/initial"
stage "$run/initial/explorations.jsonl" explore --env desk --mode curious --episodes 64 --seed 7
stage "$run/initial/candidates.jsonl" abstract "$run/initial/explorations.jsonl" --per-exploration 1
stage "$run/initial/valid.jsonl" validate "$run/initial/candidates.jsonl"
stage "$run/tasks.jsonl" merge "$run/initial/valid.jsonl" --exclude "$run/heldout.jsonl"

say "the loop, and its static twin beside it on the other core ($run/static.txt)"
set -m # each gets a process group of its own, so that it can be ended with all its children
arm static static > "$run/static.txt" 2> "$run/static.log" &
static=$!
arm loop guided > "$run/loop.txt" &
loop=$!
set +m
end() { kill -TERM -- "-$loop" "-$static" 2> /dev/null || true; }
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
alive() { kill -0 "$1" 2> /dev/null; }
while alive "$loop" && alive "$static"; do sleep 1; done
alive "$static" || wait "$static" || { tail -n 5 "$run/static.log" >&2; exit 1; }
wait "$loop"
wait "$static" || { tail -n 5 "$run/static.log" >&2; exit 1; }
trap - EXIT

say "one attempt at each of the held-out tasks: before, after the loop, after its static twin"
measure base "$run/policy" dev
measure base "$run/policy" heldout & measure loop "$run/loop/policy" heldout
wait
measure static "$run/static/policy" heldout

exec 2>&1
echo
echo "THE LOOP, iteration by iteration (success and informative: shares of its training rollouts"
echo "and groups; made: share of the batch that the loop made)"
cat "$run/loop.txt"
echo
echo "ITS STATIC TWIN: same policy, same steps, D_0 only"
cat "$run/static.txt"
echo
echo "HELD-OUT TASKS. Mean over kinds of task. 'weak': kinds at which the first policy solved less"
echo "than half of the dev tasks (other ones than these). Intervals say how far other held-out tasks"
echo "could move a figure, not how far another run would."
echo; echo "-- before --"; compare base
echo; echo "-- after the loop; difference to before --"; compare loop base
echo; echo "-- after the static twin; difference to before --"; compare static base
echo; echo "-- after the loop; difference to the static twin --"; compare loop static
echo; echo "Everything is in $run"
