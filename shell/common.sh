# shellcheck shell=bash
# Sourced by the scripts of this folder: how stages are run, and a virtual environment with the toolkit in it, CPU wheels of torch,
# one thread a process.
# VENV names the environment (default .venv in the repository), PYTHON the interpreter that makes it (3.11 or later).

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${VENV:-$ROOT/.venv}
TORCH=${TORCH:-torch==2.13.0}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-1}

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

# stage OUT COMMAND...: one stage with one output file, which appears only when the stage has succeeded; skipped if it is there.
stage() {
    local out=$1; shift
    [ -e "$out" ] || coevolve "$@" --quiet -o "$out"
}

# copy FROM TO: whole or not at all; nothing if TO is there.
copy() {
    [ -e "$2" ] || { cp "$1" "$2.tmp" && mv "$2.tmp" "$2"; }
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
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

# torch alone and first. uv can choose CPU wheels; pip cannot, and takes what its index offers: the default wheel of Linux on
# x86-64 is a CUDA build of several GB, fine where there is a GPU and wasteful where there is none.
install_torch() {
    "$VENV/bin/python" -c 'import torch' 2>/dev/null && return
    say "installing $TORCH"
    if command -v uv >/dev/null && ! command -v nvidia-smi >/dev/null; then
        uv pip install --quiet --python "$VENV/bin/python" --torch-backend cpu "$TORCH" && return
        say "no CPU wheel that way; asking pip"
    fi
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$TORCH"
}

# install EXTRAS: the toolkit, editable, with the extras named; a second call with nothing changed takes a second.
install() {
    local extras=$1 stamp
    stamp=$VENV/.coevolve-$(cat "$ROOT/pyproject.toml" <(echo "$extras $ROOT") | cksum | cut -d' ' -f1)
    if [ ! -e "$stamp" ]; then
        [ -x "$VENV/bin/python" ] || { say "making a virtual environment in $VENV"; "$(find_python)" -m venv "$VENV"; }
        case $extras in *local*) install_torch ;; esac
        say "installing coevolve[$extras]"
        pip_install --editable "${ROOT}[$extras]"
        touch "$stamp"
    fi
    export PATH=$VENV/bin:$PATH
}
