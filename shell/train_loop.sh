#!/usr/bin/env bash
# The loop: train, read the rollouts for weaknesses, explore, abstract, validate, merge, train anew.
#
#   shell/train_loop.sh RUN --config shell/loops/laptop.toml --model DIR [--set train.steps=3]...
#   shell/train_loop.sh RUN --config shell/loops/qwen3-4b.toml [--dry-run] [-- OVERRIDE_OF_VERL...]
#
# The settings file has a table [loop] and one for each command; what stands here wins over it
# (--help lists the keys of [loop]). Each line of the loop below is one stage with one output file,
# which appears only when the stage has succeeded. So the script can be killed anywhere and started
# again with the same words: it goes on where it was. Everything is in RUN:
#
#   RUN/loop.toml          the settings; other ones are refused
#   RUN/tasks.jsonl        D_0
#   RUN/iterations/NNN/    a file for each stage: rollouts, signals, explorations, candidates, …
#   RUN/history.jsonl      outcomes of every task in every iteration
#   RUN/metrics.jsonl      one line per GRPO step
#   RUN/policy             the trained policy, a Hugging Face directory
#
# With verl the trainer is one process for all iterations. It waits, serving its policy, while new
# tasks are made, and ends with this script; after kill -9 it waits on, and the next call attaches.
# shellcheck disable=SC2154 # the settings are assigned by what `coevolve loop check` prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_commands
[ $# -gt 0 ] || { coevolve loop check --help >&2; exit 2; }
case " $* " in *" -h "*|*" --help "*) exec coevolve loop check --help ;; esac
checked=$(coevolve loop check "$@") # assigns run, the keys of [loop] and some more, or refuses
eval "$checked"
CONFIG=$run/loop.toml DRY=$dry_run

coevolve() { waited command coevolve "$@"; }
begun() { # whether any stage left something
    find "$run" -name '*.jsonl' ! -name tasks.jsonl -o -name '*.journal' -o -name config.json |
        grep -q .
}
end() {
    local status=$?
    trap - EXIT
    [ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2> /dev/null || true
    unserve
    [ "$backend" != verl ] || do_ coevolve train --run "$run" --backend verl --stop ||
        say "the trainer of $run was not stopped"
    # where not even the first stage began, RUN stays free for other settings
    [ "$status" -eq 0 ] || [ -z "$fresh" ] || begun ||
        rm -f "$CONFIG" "$run/tasks.jsonl" "$run/iterations/001/tasks.jsonl"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ask MODEL URL [FLAG...]: the model that explores, writes and, with `solver`, tries the tasks
asked=() tried=()
ask() {
    asked=(--model "$1" --base-url "$2" --run "$run" "${@:3}")
    [ -z "$solver" ] || tried=("${asked[@]}")
}
# The policy of iteration $here: where the trainer that waits with it serves it, else at a server of
# ours. Its answers are kept with the iteration: the next policy has its name and other weights.
ask_policy() {
    local ready=$run/verl/iterations/${here##*/}/READY.json address="" name=""
    if [ -n "$DRY" ] && [ "$backend" = verl ]; then
        echo "# name and addresses of the policy are those of $ready"
        address=http://127.0.0.1:8000/v1 name=${model:-MODEL}
    elif [ -e "$ready" ]; then
        IFS=$'\t' read -r address name < <(policy_at "$ready")
        answers "${address%%,*}" || address=""
    fi
    [ -n "$address" ] || { serve "$run/policy"; address=$served name=$run/policy; }
    ask "$name" "$address" --journal "$here/journal"
}
# tasks_in FOLDER EXPLORE-ARGUMENT...: explorations, their candidate tasks, the valid ones of these
tasks_in() {
    local in=$1; shift
    stage "$in/explorations.jsonl" explore "$@" "${asked[@]}"
    stage "$in/candidates.jsonl" abstract "$in/explorations.jsonl" "${asked[@]}"
    [ "$made" = candidates ] || set -- "$in/candidates.jsonl" --verdicts "$in/verdicts.jsonl"
    [ "$made" = candidates ] || stage "$in/valid.jsonl" validate "$@" "${tried[@]}"
}

[ -z "$DRY" ] || printf "mkdir -p %q\ncat > %q << 'END'\n%sEND\n" "$run" "$CONFIG" "$text"
case $explorer in
    api) ask "$explorer_model" "$base_url" ;;
    server) serve "$explorer_model" "${EXPLORER_GPUS:-}"; ask "$explorer_model" "$served" ;;
esac

made=valid
if [ -n "$tasks" ]; then
    copy "$tasks" "$run/tasks.jsonl"
else
    say "D_0: curious exploration of $env, without any signal"
    do_ mkdir -p "$run/initial"
    tasks_in "$run/initial" --mode curious --episodes "$initial" --seed "$seed"
    stage "$run/tasks.jsonl" merge "$run/initial/valid.jsonl"
fi

[ "$validation" = on ] || made=candidates
current=$run/tasks.jsonl last=(${overrides[0]:+-- "${overrides[@]}"})
for i in $(seq 1 "$iterations"); do
    here=$run/iterations/$(printf %03d "$i")
    do_ mkdir -p "$here"
    copy "$current" "$here/tasks.jsonl"
    stage "$here/rollouts.jsonl" train "$here/tasks.jsonl" --iteration "$i" "${last[@]}"
    stage "$here/signals.jsonl" extract-signals "$here/rollouts.jsonl"
    if [ "$arm" = static ] || [ "$i" -eq "$iterations" ]; then continue; fi

    current=$here/merged.jsonl
    [ ! -e "$current" ] || continue
    [ "$explorer" != policy ] || ask_policy
    from=(--mode "$arm" --tasks "$here/tasks.jsonl")
    [ "$arm" != guided ] || from+=("$here/signals.jsonl")
    tasks_in "$here" "${from[@]}" --iteration "$i" --seed "$((10#$seed$i))"
    stage "$current" merge "$here/$made.jsonl" --into "$here/tasks.jsonl"
    [ "$explorer" != policy ] || unserve
done
do_ coevolve report "$run"
