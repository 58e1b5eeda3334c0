#!/usr/bin/env bash
# The loop: train, read the rollouts for weaknesses, explore around them, abstract, validate, merge, train again.
#
#   shell/train_loop.sh RUN --config shell/loops/laptop.toml --model DIR [--arm coverage] [--set train.steps=3]...
#   shell/train_loop.sh RUN --config shell/loops/qwen3-4b.toml --env bfcl [--dry-run] [-- OVERRIDE_OF_VERL...]
#
# The settings file has a table [loop] and one for each command; what stands here wins over it (--help lists the keys of [loop]).
# Each line of the loop below is one stage with one output file, which appears only when the stage has succeeded. So the script
# can be killed anywhere and started again with the same words: it goes on where it was. Everything is in RUN:
#
#   RUN/loop.toml                   the settings; other ones are refused
#   RUN/tasks.jsonl                 D_0
#   RUN/iterations/NNN/             tasks, rollouts, signals, explorations, candidates, verdicts, valid, merged (.jsonl)
#   RUN/history.jsonl               outcomes of every task in every iteration
#   RUN/metrics.jsonl               one line per GRPO step
#   RUN/policy                      the trained policy, a Hugging Face directory
#
# With verl the trainer is one process for all iterations. It waits, serving its policy, while new tasks are made; it ends with
# this script, unless the script is killed with -9: then the next call attaches to it.
# shellcheck disable=SC2154 # the settings are assigned by what `coevolve loop check` prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
find_commands
[ $# -gt 0 ] || { coevolve loop check --help >&2; exit 2; }
case " $* " in *" -h "*|*" --help "*) exec coevolve loop check --help ;; esac
checked=$(coevolve loop check "$@") # sets run, the keys of [loop] and what else is read below; refuses what cannot work
eval "$checked"
CONFIG=$run/loop.toml DRY=$dry_run

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
end() {
    local status=$?
    trap - EXIT
    [ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2> /dev/null || true
    unserve
    [ "$backend" != verl ] || do_ coevolve train --run "$run" --backend verl --stop || say "the trainer of $run was not stopped"
    # where not even the first stage began, RUN stays free for other settings
    [ "$status" -eq 0 ] || [ -z "$fresh" ] ||
        [ -n "$(find "$run" \( -name '*.jsonl' ! -name tasks.jsonl -o -name '*.journal' -o -name config.json \) -print -quit)" ] ||
        rm -f "$run/loop.toml" "$run/tasks.jsonl" "$run/iterations/001/tasks.jsonl"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ask MODEL URL [FLAG...]: the model that explores, writes and, with `solver`, tries the tasks; until then there is none.
asked=() tried=()
ask() {
    asked=(--model "$1" --base-url "$2" --run "$run" "${@:3}")
    [ -z "$solver" ] || tried=("${asked[@]}")
}
# The policy of iteration $here: at the addresses of the trainer that waits with it, else at a server of ours. Its answers are
# kept with the iteration: the next policy has the same name and other weights.
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
# tasks_from FOLDER EXPLORE-ARGUMENT...: explorations in FOLDER, the candidates they hold, and those that are valid
tasks_from() {
    stage "$1/explorations.jsonl" explore "${@:2}" "${asked[@]}"
    stage "$1/candidates.jsonl" abstract "$1/explorations.jsonl" "${asked[@]}"
    [ "$made" = candidates ] || stage "$1/valid.jsonl" validate "$1/candidates.jsonl" "${tried[@]}" --verdicts "$1/verdicts.jsonl"
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
    tasks_from "$run/initial" --mode curious --episodes "$initial" --seed "$seed"
    stage "$run/tasks.jsonl" merge "$run/initial/valid.jsonl"
fi

[ "$validation" = on ] || made=candidates
current=$run/tasks.jsonl
for i in $(seq 1 "$iterations"); do
    here=$run/iterations/$(printf %03d "$i")
    do_ mkdir -p "$here"
    copy "$current" "$here/tasks.jsonl"
    stage "$here/rollouts.jsonl" train "$here/tasks.jsonl" --run "$run" --iteration "$i" ${overrides[0]:+-- "${overrides[@]}"}
    stage "$here/signals.jsonl" extract-signals "$here/rollouts.jsonl" --history "$run/history.jsonl"
    if [ "$arm" = static ] || [ "$i" -eq "$iterations" ]; then continue; fi

    current=$here/merged.jsonl
    [ ! -e "$current" ] || continue
    [ "$explorer" != policy ] || ask_policy
    from=(--mode "$arm" --tasks "$here/tasks.jsonl"); [ "$arm" != guided ] || from+=("$here/signals.jsonl")
    tasks_from "$here" "${from[@]}" --iteration "$i" --seed "$((10#$seed$i))"
    stage "$current" merge "$here/$made.jsonl" --into "$here/tasks.jsonl"
    [ "$explorer" != policy ] || unserve
done
do_ coevolve report "$run"
