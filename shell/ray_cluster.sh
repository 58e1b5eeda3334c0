#!/usr/bin/env bash
# A Ray cluster over several nodes for one command, which runs here, on the first of them: starts
# Ray everywhere, waits until all
# nodes and GPUs are there, runs the command with RAY_ADDRESS set, and ends Ray again, however it
# itself ends.
#
#   shell/ray_cluster.sh --nodes "HOST HOST..." [--gpus 8] [--launcher ssh|srun] [--port 6379]
#       [--wait 600] [--dry-run] -- COMMAND...
#
# The nodes share the repository, the virtual environment and the run directory at the same paths (a
# network file system). Over ssh
# each node gets this shell's directory and the variables that KEEP names; srun hands on all of
# them. HEAD_IP is this node's address for the
# others (default: the first that `hostname -I` prints); RAY_FLAGS are further flags of each `ray
# start`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

nodes="" gpus=8 launcher=ssh port=6379 patience=600
while [ $# -gt 0 ]; do
    case $1 in
        --) shift; break ;;
        --dry-run) DRY=yes; shift; continue ;;
    esac
    [ $# -ge 2 ] || usage
    case $1 in
        --nodes) nodes=$2 ;; --gpus) gpus=$2 ;; --launcher) launcher=$2 ;;
        --port) port=$2 ;; --wait) patience=$2 ;;
        *) usage ;;
    esac
    shift 2
done
if [ -z "$nodes" ] || [ $# -eq 0 ]; then usage; fi
case $launcher in ssh|srun) ;; *) usage ;; esac
for number in "$gpus" "$port" "$patience"; do
    case $number in
        ''|*[!0-9]*|0?*|??????*)
            refuse "not a number that --gpus, --port or --wait takes: '$number'" ;;
    esac
done
if [ "$port" -eq 0 ] || [ "$port" -gt 65535 ]; then refuse "no port: $port"; fi
find_commands
read -r -a hosts <<< "$nodes"
usual="PATH VIRTUAL_ENV LD_LIBRARY_PATH COEVOLVE_HOME HF_HOME HF_HUB_OFFLINE OMP_NUM_THREADS"
usual+=" TOKENIZERS_PARALLELISM PYTHONUNBUFFERED TMPDIR NCCL_SOCKET_IFNAME NCCL_IB_HCA"
usual+=" GLOO_SOCKET_IFNAME VLLM_HOST_IP"
KEEP=${KEEP:-$usual}
ip=${HEAD_IP:-$(hostname -I 2> /dev/null | cut -d' ' -f1)}
ip=${ip:-$(hostname)}
[ -z "$DRY" ] || ip=${HEAD_IP:-HEAD}
export RAY_ADDRESS=$ip:$port
# Whoever reaches an open Ray port can run anything: this cluster asks for a token of its own.
export RAY_AUTH_MODE=${RAY_AUTH_MODE:-token}
new_token() { python3 -c 'import secrets; print(secrets.token_hex(32))'; }
[ "$RAY_AUTH_MODE" != token ] || export RAY_AUTH_TOKEN=${RAY_AUTH_TOKEN:-$(new_token)}

# remote HOST COMMAND...: on that node, for as long as standard input stays open.
remote() {
    local host=$1 name words; shift
    # the token comes through the pipe: a command line is for everyone to read
    words=(read -r RAY_AUTH_TOKEN "&&" export RAY_AUTH_TOKEN)
    words+=("&&" cd "$(printf %q "$PWD")" "&&" exec env)
    case $launcher in
        srun) do_ srun --overlap --nodes=1 --ntasks=1 --nodelist="$host" "${supervised[@]}" "$@" ;;
        ssh)
            for name in $KEEP RAY_AUTH_MODE; do
                [ -z "${!name:-}" ] || words+=("$name=$(printf %q "${!name}")")
            done
            do_ ssh -o BatchMode=yes -o ServerAliveInterval=30 "$host" \
                "${words[*]} $(printf '%q ' "${supervised[@]}" "$@")" ;;
    esac
}
# node COMMAND...: one node's Ray, supervised; its pipe and process are kept in `pipes` and `rays`.
pipes=() rays=()
node() {
    local pipe
    [ -z "$DRY" ] || { "$@"; return; }
    exec {pipe}> >(close; exec 1>&2; "$@")
    pipes+=("$pipe") rays+=("$!")
    (echo "${RAY_AUTH_TOKEN:-}" >&"$pipe") 2> /dev/null || true
}
close() { local pipe; for pipe in "${pipes[@]}"; do exec {pipe}>&-; done; }
alive() { local ray; for ray in "${rays[@]}"; do kill -0 "$ray" 2> /dev/null || return 1; done; }
child=""
end() {
    trap - EXIT
    [ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2> /dev/null || true
    [ ${#rays[@]} -eq 0 ] || { close; wait "${rays[@]}" || true; }
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# no draining: when Ray is to end, nothing runs on it any more
ray=(env RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0)
ray+=(ray start --block --disable-usage-stats --num-gpus "$gpus")
# shellcheck disable=SC2206 # several words
ray+=(${RAY_FLAGS:-})
say "Ray on ${#hosts[@]} nodes, $gpus GPUs each, head $RAY_ADDRESS"
await() { # await NODES GPUS: until the cluster has them
    local command=(python "$ROOT/shell/ray_wait.py" "$RAY_ADDRESS" "$1" "$2" "$patience")
    [ -z "$DRY" ] || { do_ "${command[@]}"; return; }
    "${command[@]}" &
    child=$!
    while kill -0 "$child" 2> /dev/null; do
        alive || { say "Ray ended on a node; what it said stands above"; exit 69; }
        sleep 1
    done
    wait "$child" || exit 69
    child=""
}
node do_ "${supervised[@]}" "${ray[@]}" --head --node-ip-address "$ip" --port "$port"
await 1 "$gpus" # workers that come before the head would give up
for host in "${hosts[@]:1}"; do
    node remote "$host" "${ray[@]}" --address "$RAY_ADDRESS"
done
await "${#hosts[@]}" "$((gpus * ${#hosts[@]}))"

[ -z "$DRY" ] || { do_ env RAY_ADDRESS="$RAY_ADDRESS" "$@"; exit 0; }
(close; exec "$@") &
child=$!
wait "$child"
