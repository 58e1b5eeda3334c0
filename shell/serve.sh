#!/usr/bin/env bash
# An OpenAI-compatible server for a model: vLLM where it is installed, else `transformers serve`
# (one machine, slow, enough to try).
#
#   shell/serve.sh MODEL [HOST] [PORT] [flag of the server]...      HOST 127.0.0.1, PORT 8000
#
# The model's name at the server is MODEL. TOOL_PARSER names vLLM's parser of tool calls (hermes:
# Qwen2.5, Qwen3).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -ge 1 ] || { say "usage: shell/serve.sh MODEL [HOST] [PORT] [flag]..."; exit 2; }
model=$1 host=${2:-127.0.0.1} port=${3:-8000}
shift $(($# < 3 ? $# : 3))
find_commands

if command -v vllm > /dev/null; then
    # a model's own generation_config would change temperature and top_p behind our back
    exec vllm serve "$model" --host "$host" --port "$port" --generation-config vllm \
        --enable-auto-tool-choice --tool-call-parser "${TOOL_PARSER:-hermes}" "$@"
fi
exec transformers serve "$model" --host "$host" --port "$port" "$@"
