# shellcheck shell=bash
# Sourced by the scripts of this folder: how stages are run, and a virtual environment with the
# toolkit in it, CPU wheels of torch,
# one thread a process.
# VENV names the environment (default .venv in the repository), PYTHON the interpreter that makes it
# (3.11 or later).

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$ROOT/.venv}
TORCH=${TORCH:-torch==2.13.0}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1}
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false

# a command that ends with whoever holds its standard input
supervised=(python3 -IS "$ROOT/coevolve/supervise.py" 30) # seconds between asking and killing

DRY="" # --dry-run of a script sets it

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
refuse() { say "$1"; exit 2; }

# do_ COMMAND...: runs it or, where DRY is set, prints it as one would type it.
do_() {
    # a bare `return` in an EXIT trap is the status from before it
    [ -n "$DRY" ] || { "$@"; return "$?"; }
    local word space=""
    for word; do
        case $word in
            ''|*[!A-Za-z0-9_./:=,@%+-]*) printf '%s%q' "$space" "$word" ;;
            *) printf '%s%s' "$space" "$word" ;;
        esac
        space=" "
    done
    echo
}

CONFIG="" # the settings file of `stage`, if a script has one

# stage OUT COMMAND...: one stage with one output file, which appears only when the stage has
# succeeded; skipped if it is there.
# What stands behind a `--` of the command stays at its end.
stage() {
    local out=$1 command=$2; shift 2
    [ -e "$out" ] || do_ coevolve "$command" -o "$out" --quiet ${CONFIG:+--config "$CONFIG"} "$@"
}

# waited COMMAND...: in the background and waited for, so that a signal to this script alone, which
# has to end $child, reaches it at once.
child=""
waited() {
    local status=0
    "$@" 7>&- &
    child=$!
    wait "$child" || status=$?
    child=""
    return "$status"
}

# copy FROM TO: whole or not at all; nothing if TO is there.
copy() {
    [ -e "$2" ] || { do_ cp "$1" "$2.tmp" && do_ mv "$2.tmp" "$2"; }
}

# The command from PATH, else from VENV.
find_commands() {
    command -v coevolve > /dev/null || export PATH=$VENV/bin:$PATH
    command -v coevolve > /dev/null ||
        refuse "coevolve is not installed here: pip install -e '.[local]'"
}

# answers URL: does an OpenAI-compatible server of ours answer there (no proxy knows it)
answers() {
    python3 -c 'import sys, urllib.request as web
web.build_opener(web.ProxyHandler({})).open(sys.argv[1] + "/models", timeout=10)' "$1" 2> /dev/null
}

# ended LOG MESSAGE: the last words of a server, and exit 69
ended() { tail -n 5 "$1" >&2; say "$2"; exit 69; }

# policy_at READY.json: the addresses of a trainer's policy, separated by commas; a tab; its name
policy_at() {
    python3 -c 'import json, sys
ready = json.load(open(sys.argv[1]))
print(",".join(ready["addresses"]), ready["model"], sep="\t")' "$1"
}

# serve MODEL [GPUS]: a server of our own on loopback, on these GPUs only (as 6,7), until `unserve`
# or the end of this script, however
# it ends. Sets `served`, its address.
served="" server=""
serve() {
    local port=8000 log=${run:-.}/server.log
    local command=("${supervised[@]}" env ${2:+CUDA_VISIBLE_DEVICES="$2"})
    command+=("$ROOT/shell/serve.sh" "$1" 127.0.0.1)
    if [ -n "$DRY" ]; then
        do_ "${command[@]}" "$port"
    else
        port=$(python3 -c 'import socket
print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
        say "serving $1 (log: $log)"
        exec 7> >(exec "${command[@]}" "$port" > "$log" 2>&1)
        server=$!
        for _ in $(seq "${SERVE_WAIT:-900}"); do
            ! answers "http://127.0.0.1:$port/v1" || break
            kill -0 "$server" 2> /dev/null || ended "$log" "the server of $1 ended"
            sleep 1
        done
        answers "http://127.0.0.1:$port/v1" || { say "the server of $1 does not answer"; exit 69; }
    fi
    # shellcheck disable=SC2034 # for whoever sources this
    served=http://127.0.0.1:$port/v1
}
unserve() {
    [ -n "$server" ] || return 0
    exec 7>&-
    wait "$server" || true
    server=""
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2> /dev/null; then
            echo "$candidate"; return
        fi
    done
    say "needs Python 3.11 or later (set PYTHON)"; exit 1
}

pip_install() {
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$VENV/bin/python" "$@"
    else
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

# torch alone and first. uv can choose CPU wheels, from PyTorch's own index and from nowhere else:
# behind a mirror of another
# index it cannot, and pip, which knows the mirror, is asked. pip takes what its index offers: the
# default wheel of Linux on x86-64
# is a CUDA build of several GB, fine where there is a GPU and wasteful where there is none.
install_torch() {
    "$VENV/bin/python" -c 'import torch' 2>/dev/null && return
    say "installing $TORCH"
    if command -v uv >/dev/null && ! command -v nvidia-smi >/dev/null; then
        uv pip install --quiet --python "$VENV/bin/python" --torch-backend cpu "$TORCH" && return
        say "uv cannot reach PyTorch's index of CPU wheels; pip takes what its own index offers"
    fi
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$TORCH"
}

# install EXTRAS: the toolkit, editable, with the extras named; a second call with nothing changed
# takes a second.
install() {
    local extras=$1 stamp
    stamp=$(cat "$ROOT/pyproject.toml" <(echo "$extras $ROOT") | cksum | cut -d' ' -f1)
    stamp=$VENV/.coevolve-$stamp
    if [ ! -e "$stamp" ]; then
        [ -x "$VENV/bin/python" ] || {
            say "making a virtual environment in $VENV"
            "$(find_python)" -m venv "$VENV"
        }
        case ,$extras, in
            *,verl,*) ;; # brings the CUDA build of torch that its vLLM is built for
            *,local,*) install_torch ;;
        esac
        say "installing coevolve[$extras]"
        pip_install --editable "${ROOT}[$extras]"
        touch "$stamp"
    fi
    export PATH=$VENV/bin:$PATH
}
