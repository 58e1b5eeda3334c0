#!/usr/bin/env bash
# The loop: train, read the rollouts for weaknesses, explore around them, abstract, validate, merge, train again.
#
#   shell/train_loop.sh RUN --model DIR [--env desk] [--tasks FILE] [--iterations 10] [--arm guided] ...
#
# Every line below is one stage with one output file. A file appears only when its stage has succeeded, so the script can be
# killed anywhere and started again with the same arguments: it goes on where it was. Everything is in RUN:
#
#   RUN/settings                    the arguments; another set of arguments is refused
#   RUN/tasks.jsonl                 D_0
#   RUN/iterations/NNN/             tasks, rollouts, signals, explorations, candidates, verdicts, valid (.jsonl)
#   RUN/history.jsonl                outcomes of every task in every iteration
#   RUN/metrics.jsonl               one line per GRPO step
#   RUN/policy                      the trained policy, a Hugging Face directory
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat >&2 <<'HELP'
usage: shell/train_loop.sh RUN --model DIR [option value]...
  --env NAME          environment (desk)
  --tasks FILE        D_0; without it, D_0 is made by curious exploration
  --iterations N      training iterations (10)
  --arm ARM           where new tasks come from: guided, coverage, random, curious, or static for none (guided)
  --steps N           GRPO steps an iteration (10)
  --batch N           tasks a step (12)
  --episodes N        explorations an iteration, each one new task at most (32)
  --explore-steps N   actions an exploration (40)
  --initial N         explorations for D_0, where it is made here (128)
  --seed N            (0)
  --workers N         environment processes (1)
  --train "FLAGS"     further flags of coevolve train, as --train "--lr 3e-4 --temperature 1"
HELP
    exit 2
}

[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || usage
run=$1; shift
model="" env=desk tasks="" iterations=10 arm=guided steps=10 batch=12 episodes=32 explore_steps=40 initial=128 seed=0 workers=1 train=""
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
        --model) model=$2 ;; --env) env=$2 ;; --tasks) tasks=$2 ;; --iterations) iterations=$2 ;; --arm) arm=$2 ;;
        --steps) steps=$2 ;; --batch) batch=$2 ;; --episodes) episodes=$2 ;; --explore-steps) explore_steps=$2 ;;
        --initial) initial=$2 ;; --seed) seed=$2 ;; --workers) workers=$2 ;; --train) train=$2 ;;
        *) usage ;;
    esac
    shift 2
done
[ -n "$model" ] || usage
case $arm in guided|coverage|random|curious|static) ;; *) usage ;; esac


refuse() { say "$1"; exit 2; }
for number in "$iterations" "$steps" "$batch" "$episodes" "$explore_steps" "$initial" "$workers"; do
    case $number in ''|*[!0-9]*|0) refuse "not a positive number: '$number'" ;; esac
done
[ -z "$tasks" ] || [ -f "$tasks" ] || refuse "no such file: $tasks"
case $model in
    /*|.*) [ -e "$model/config.json" ] || refuse "no model in $model" ;;
esac
[ ! -d "$model" ] || model=$(cd "$model" && pwd)
command -v coevolve > /dev/null || export PATH=$VENV/bin:$PATH
command -v coevolve > /dev/null || refuse "coevolve is not installed here: pip install -e '.[local]'"

mkdir -p "$run/iterations"
settings="model=$model env=$env tasks=$tasks arm=$arm steps=$steps batch=$batch episodes=$episodes explore_steps=$explore_steps initial=$initial seed=$seed train=$train"
if [ -e "$run/settings" ] && [ "$(cat "$run/settings")" != "$settings" ]; then
    refuse "$run was begun with other arguments: $(cat "$run/settings")"
fi
[ -e "$run/settings" ] || { printf '%s\n' "$settings" > "$run/settings.tmp" && mv "$run/settings.tmp" "$run/settings"; }

if [ -n "$tasks" ]; then
    copy "$tasks" "$run/tasks.jsonl"
else
    say "D_0: curious exploration of $env, without any signal"
    mkdir -p "$run/initial"
    stage "$run/initial/explorations.jsonl" explore --env "$env" --mode curious --episodes "$initial" --steps "$explore_steps" --seed "$seed" --workers "$workers"
    stage "$run/initial/candidates.jsonl" abstract "$run/initial/explorations.jsonl" --env "$env" --per-exploration 1 --seed "$seed" --workers "$workers"
    stage "$run/initial/valid.jsonl" validate "$run/initial/candidates.jsonl" --env "$env" --verdicts "$run/initial/verdicts.jsonl" --workers "$workers"
    stage "$run/tasks.jsonl" merge "$run/initial/valid.jsonl"
fi

current=$run/tasks.jsonl
for i in $(seq 1 "$iterations"); do
    here=$run/iterations/$(printf %03d "$i")
    mkdir -p "$here"
    copy "$current" "$here/tasks.jsonl"
    # shellcheck disable=SC2086 # --train holds several words
    stage "$here/rollouts.jsonl" train "$here/tasks.jsonl" --env "$env" --run "$run" --model "$model" --iteration "$i" --steps "$steps" --batch "$batch" --seed "$seed" --workers "$workers" $train
    stage "$here/signals.jsonl" extract-signals "$here/rollouts.jsonl" --history "$run/history.jsonl" --env "$env"
    if [ "$arm" != static ] && [ "$i" -lt "$iterations" ]; then
        signals=(); [ "$arm" != guided ] || signals=("$here/signals.jsonl")
        stage "$here/explorations.jsonl" explore ${signals[@]+"${signals[@]}"} --env "$env" --mode "$arm" --tasks "$here/tasks.jsonl" --episodes "$episodes" --steps "$explore_steps" --iteration "$i" --seed "$seed$i" --workers "$workers"
        stage "$here/candidates.jsonl" abstract "$here/explorations.jsonl" --env "$env" --per-exploration 1 --seed "$seed" --workers "$workers"
        stage "$here/valid.jsonl" validate "$here/candidates.jsonl" --env "$env" --verdicts "$here/verdicts.jsonl" --workers "$workers"
        stage "$here/merged.jsonl" merge "$here/valid.jsonl" --into "$here/tasks.jsonl"
        current=$here/merged.jsonl
    fi
done
coevolve report "$run"
