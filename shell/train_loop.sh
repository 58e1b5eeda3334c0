#!/usr/bin/env bash
# The loop: train, read the rollouts for weaknesses, explore around them, abstract, validate, merge, train again.
#
#   shell/train_loop.sh RUN --model DIR [--env desk] [--tasks FILE] [--iterations 10] [--arm guided] ...
#   shell/train_loop.sh RUN --env bfcl --backend verl --preset qwen3-4b --iterations 12 --initial 100 --explorer policy
#
# Every line below is one stage with one output file. A file appears only when its stage has succeeded, so the script can be
# killed anywhere and started again with the same arguments: it goes on where it was. Everything is in RUN:
#
#   RUN/settings                    the arguments; another set of arguments is refused
#   RUN/tasks.jsonl                 D_0
#   RUN/iterations/NNN/             tasks, rollouts, signals, explorations, candidates, verdicts, valid (.jsonl)
#   RUN/history.jsonl               outcomes of every task in every iteration
#   RUN/metrics.jsonl               one line per GRPO step
#   RUN/policy                      the trained policy, a Hugging Face directory
#
# With --backend verl the trainer is one process for all iterations. It waits, serving its policy, while new tasks are made; it is
# ended with this script, unless the script is killed with -9: then the next call attaches to it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat >&2 <<'HELP'
usage: shell/train_loop.sh RUN --model DIR|ID [option]...          (a preset brings its own model)
  --env NAME          environment (desk)
  --tasks FILE        D_0; without it, D_0 is made by curious exploration
  --exclude FILE      held-out tasks: nothing that touches them enters the set
  --iterations N      training iterations (10)
  --steps N           GRPO steps an iteration (10, or the preset's)
  --batch N           tasks a step (12, or the preset's)
  --episodes N        explorations an iteration, each one new task at most (32)
  --explore-steps N   actions an exploration (40)
  --initial N         explorations for D_0, where it is made here (128)
  --seed N            (0)
  --workers N         environment processes (1)
training
  --backend B         local: one process; verl: Ray, FSDP, vLLM (local)
  --preset NAME       of the verl backend
  --train "FLAGS"     further flags of coevolve train, as --train "--lr 3e-4 --temperature 1"; verl's own behind a --
who explores, writes and reflects
  --explorer E        program: no model; policy: the policy itself, where its trainer serves it; server: a model that this script
                      serves (its GPUs: EXPLORER_GPUS); api: a model at --base-url, key in OPENAI_API_KEY (program)
  --explorer-model M  of server and api
  --base-url URL      of api
  --solver            the explorer's model also tries each new task by its request alone
  --config FILE       TOML with a table per command: any further option of a stage, as budgets of calls
ablations
  --arm ARM           where new tasks come from: guided, coverage, random, curious, or static for none (guided)
  --without KIND,...  kinds of signal to leave out: forgetting, boundary, rare, ...
  --no-validation     new tasks are not validated (D_0 is)
  --dry-run           print the commands, in order; do nothing
HELP
    exit 2
}

case ${1:--} in -*) usage ;; esac
run=$1; shift
model="" env=desk tasks="" exclude="" iterations=10 steps="" batch="" episodes=32 explore_steps=40 initial=128 seed=0 workers=1
backend=local preset="" train="" explorer=program explorer_model="" base_url="" solver="" config="" arm=guided without="" validation=yes
while [ $# -gt 0 ]; do
    case $1 in
        --solver) solver=yes; shift; continue ;;
        --no-validation) validation=no; shift; continue ;;
        --dry-run) DRY=yes; shift; continue ;;
    esac
    [ $# -ge 2 ] || usage
    case $1 in
        --model) model=$2 ;; --env) env=$2 ;; --tasks) tasks=$2 ;; --exclude) exclude=$2 ;; --iterations) iterations=$2 ;;
        --steps) steps=$2 ;; --batch) batch=$2 ;; --episodes) episodes=$2 ;; --explore-steps) explore_steps=$2 ;;
        --initial) initial=$2 ;; --seed) seed=$2 ;; --workers) workers=$2 ;;
        --backend) backend=$2 ;; --preset) preset=$2 ;; --train) train=$2 ;;
        --explorer) explorer=$2 ;; --explorer-model) explorer_model=$2 ;; --base-url) base_url=$2 ;; --config) config=$2 ;;
        --arm) arm=$2 ;; --without) without=$2 ;;
        *) usage ;;
    esac
    shift 2
done
[ -n "$model$preset" ] || usage
case $arm in guided|coverage|random|curious|static) ;; *) usage ;; esac
case $backend in local|verl) ;; *) usage ;; esac
case $explorer in program|policy|server|api) ;; *) usage ;; esac

for number in "$iterations" "${steps:-1}" "${batch:-1}" "$episodes" "$explore_steps" "$initial" "$workers"; do
    case $number in ''|*[!0-9]*|0*) refuse "not a positive number: '$number'" ;; esac
done
case $seed in ''|*[!0-9]*) refuse "--seed takes a whole number, not '$seed'" ;; esac
for file in "$tasks" "$exclude" "$config"; do
    [ -z "$file" ] || [ -f "$file" ] || refuse "no such file: $file"
done
case $model in
    /*|.*) [ -e "$model/config.json" ] || refuse "no model in $model" ;;
esac
[ "$backend" = local ] || [ -n "$preset" ] || refuse "--backend verl needs --preset"
[ -z "$preset" ] || [ "$backend" = verl ] || refuse "--preset needs --backend verl"
case " $train " in
    *" --stop "*|*" --run "*|*" --iteration "*|*" --dry-run "*) refuse "--train takes flags of coevolve train that say how; --run, --iteration, --stop and --dry-run are the loop's own" ;;
esac
[ -z "$without" ] || [ "$arm" = guided ] || refuse "--without needs --arm guided: the other arms read no signals"
[ -z "$solver" ] || [ "$explorer" != program ] || refuse "--solver needs a model: --explorer policy, server or api"
case $explorer in
    program|policy) [ -z "$explorer_model" ] || refuse "--explorer-model needs --explorer server or api" ;;
    server|api) [ -n "$explorer_model" ] || refuse "--explorer $explorer needs --explorer-model" ;;
esac
case $explorer:$base_url in
    api:) refuse "--explorer api needs --base-url" ;;
    program:?*|policy:?*|server:?*) refuse "--base-url needs --explorer api" ;;
esac
[ ! -d "$model" ] || model=$(cd "$model" && pwd)
find_commands

shared=(--env "$env" --workers "$workers"); [ -z "$config" ] || shared+=(--config "$config")
training=("${shared[@]}" --run "$run" --seed "$seed")
[ "$backend" = local ] || training+=(--backend "$backend")
[ -z "$preset" ] || training+=(--preset "$preset")
[ -z "$model" ] || training+=(--model "$model")
[ -z "$steps" ] || training+=(--steps "$steps")
[ -z "$batch" ] || training+=(--batch "$batch")
reading=(--env "$env"); [ -z "$config" ] || reading+=(--config "$config")
[ -z "$without" ] || reading+=(--quota "${without//,/=0,}=0")

settings="model=$model env=$env tasks=$tasks exclude=$exclude arm=$arm without=$without validation=$validation steps=$steps batch=$batch episodes=$episodes explore_steps=$explore_steps initial=$initial seed=$seed backend=$backend preset=$preset train=$train explorer=$explorer explorer_model=$explorer_model solver=$solver config=$config"
if [ -e "$run/settings" ] && [ "$(cat "$run/settings")" != "$settings" ]; then
    refuse "$run was begun with other arguments: $(cat "$run/settings")"
fi
# What a stage would refuse is refused here, before RUN holds anything: an unknown kind of signal, option, key or preset, a model
# that is not here.
takes() { # takes COMMAND ARGUMENT...: would the stage start with these
    local said
    said=$(coevolve "$@" 2>&1 > /dev/null < /dev/null) || { local status=$?; printf '%s\n' "$said" >&2; exit "$status"; }
}
[ ${#reading[@]} -eq 2 ] || takes extract-signals --quiet "${reading[@]:2}"
if [ -z "$DRY" ] && [ ! -e "$run/settings" ]; then
    cache=${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}
    [ -z "$model" ] || [ -d "$model" ] || [ "$HF_HUB_OFFLINE" = 0 ] || [ -e "$cache/models--${model//\//--}" ] ||
        refuse "no model $model: neither a directory nor in $cache (HF_HUB_OFFLINE=0 lets it be downloaded)"
    for name in explore abstract validate; do
        [ -z "$config" ] || takes "$name" --dry-run "${shared[@]}"
    done
    # shellcheck disable=SC2086 # --train holds several words
    takes train --dry-run "${training[@]}" $train
fi

fresh=""
if [ -z "$DRY" ]; then
    mkdir -p "$run/iterations"
    [ -e "$run/settings" ] || { printf '%s\n' "$settings" > "$run/settings.tmp" && mv "$run/settings.tmp" "$run/settings" && fresh=yes; }
fi

# A stage runs in the background and is waited for, so that a signal to this script alone reaches it at once.
child=""
coevolve() {
    local status=0
    command coevolve "$@" 7>&- &
    child=$!
    wait "$child" || status=$?
    child=""
    return "$status"
}
begun() { [ -n "$(find "$run" \( -name '*.jsonl' ! -name tasks.jsonl -o -name '*.journal' -o -name config.json \) -print -quit)" ]; }
end() {
    local status=$?
    trap - EXIT
    [ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2> /dev/null || true
    unserve
    [ "$backend" = local ] || do_ coevolve train --run "$run" --backend verl --stop || say "the trainer of $run was not stopped"
    # where the first stage did not even begin, RUN stays free for other arguments
    [ "$status" -eq 0 ] || [ -z "$fresh" ] || begun || rm -f "$run/settings" "$run/tasks.jsonl" "$run/iterations/001/tasks.jsonl"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ask MODEL URL [FLAG...]: whom the stages ask; without arguments, no model.
ask() {
    writing=("${shared[@]}") trying=("${shared[@]}")
    [ $# -gt 0 ] || return 0
    local name=$1 address=$2; shift 2
    writing+=(--model "$name" --base-url "$address" --run "$run" "$@")
    [ -z "$solver" ] || trying+=(--model "$name" --base-url "$address" --run "$run" "$@")
}
# The policy of iteration $i: at the addresses of the trainer that waits with it, else at a server of ours. Its answers are kept with
# the iteration: the next policy has the same name and other weights.
ask_policy() {
    local ready address="" name=""
    ready=$run/verl/iterations/$(basename "$here")/READY.json
    if [ -n "$DRY" ] && [ "$backend" = verl ]; then
        echo "# name and addresses of the policy are those of $ready"
        address=http://127.0.0.1:8000/v1 name=${model:-MODEL}
    elif [ -e "$ready" ]; then
        IFS=$'\t' read -r address name < <(python3 -c 'import json, sys
ready = json.load(open(sys.argv[1]))
print(",".join(ready["addresses"]), ready["model"], sep="\t")' "$ready")
        answers "${address%%,*}" || address=""
    fi
    [ -n "$address" ] || { serve "$run/policy"; address=$served name=$run/policy; }
    ask "$name" "$address" --journal "$here/journal"
}
# make FOLDER VALIDATION EXPLORE-ARGUMENT...: explorations, candidates and valid tasks in FOLDER
make() {
    local in=$1 validation=$2; shift 2
    stage "$in/explorations.jsonl" explore "$@" "${writing[@]}" --max-actions "$explore_steps"
    stage "$in/candidates.jsonl" abstract "$in/explorations.jsonl" "${writing[@]}" --per-exploration 1 --seed "$seed"
    [ "$validation" = no ] || stage "$in/valid.jsonl" validate "$in/candidates.jsonl" "${trying[@]}" --verdicts "$in/verdicts.jsonl"
}
merge() { # merge OUT ARGUMENT...
    local out=$1; shift
    [ -z "$exclude" ] || set -- "$@" --exclude "$exclude"
    stage "$out" merge "$@"
}

ask
case $explorer in
    api) ask "$explorer_model" "$base_url" ;;
    server) serve "$explorer_model" "${EXPLORER_GPUS:-}"; ask "$explorer_model" "$served" ;;
esac

if [ -n "$tasks" ]; then
    copy "$tasks" "$run/tasks.jsonl"
else
    say "D_0: curious exploration of $env, without any signal"
    do_ mkdir -p "$run/initial"
    make "$run/initial" yes --mode curious --episodes "$initial" --seed "$seed"
    merge "$run/tasks.jsonl" "$run/initial/valid.jsonl"
fi

current=$run/tasks.jsonl
for i in $(seq 1 "$iterations"); do
    here=$run/iterations/$(printf %03d "$i")
    do_ mkdir -p "$here"
    copy "$current" "$here/tasks.jsonl"
    # shellcheck disable=SC2086 # --train holds several words
    stage "$here/rollouts.jsonl" train "$here/tasks.jsonl" "${training[@]}" --iteration "$i" $train
    stage "$here/signals.jsonl" extract-signals "$here/rollouts.jsonl" "${reading[@]}" --history "$run/history.jsonl"
    if [ "$arm" = static ] || [ "$i" -eq "$iterations" ]; then continue; fi

    current=$here/merged.jsonl
    [ ! -e "$current" ] || continue
    [ "$explorer" != policy ] || ask_policy
    from=(--mode "$arm" --tasks "$here/tasks.jsonl"); [ "$arm" != guided ] || from+=("$here/signals.jsonl")
    make "$here" "$validation" "${from[@]}" --episodes "$episodes" --iteration "$i" --seed "$seed$i"
    if [ "$validation" = yes ]; then
        merge "$current" "$here/valid.jsonl" --into "$here/tasks.jsonl"
    else
        merge "$current" "$here/candidates.jsonl" --unvalidated --into "$here/tasks.jsonl"
    fi
    [ "$explorer" != policy ] || unserve
done
do_ coevolve report "$run"
