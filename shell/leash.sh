#!/usr/bin/env bash
# Runs a command until it ends or standard input does. Whoever holds the other end of that pipe (a script, ssh, srun) may die in
# any way, kill -9 and a lost connection included: the command and its children end with it.
#
#   shell/leash.sh COMMAND [ARGUMENT]...
set -uo pipefail
grace=${LEASH_GRACE:-30} # seconds between asking and killing

set -m # a process group of its own
"$@" < /dev/null &
command=$!
set +m
exec 3<&0
end() {
    kill -TERM -- "-$command" 2> /dev/null
    for _ in $(seq "$grace"); do kill -0 -- "-$command" 2> /dev/null || return; sleep 1; done
    kill -KILL -- "-$command" 2> /dev/null
}
{ cat <&3 > /dev/null; end; } 2> /dev/null &
watch=$!
trap end TERM HUP INT
wait "$command"
status=$?
while kill -0 "$command" 2> /dev/null; do wait "$command"; status=$?; done # a signal cut the first wait short
kill "$watch" 2> /dev/null
exit "$status"
