#!/usr/bin/env bash
# All tests, from nothing: installs what they need, the bfcl environment included, then runs pytest.
#   shell/test.sh                     everything that CI runs
#   shell/test.sh -m slow             what takes minutes
#   shell/test.sh tests/signals -x    anything else goes to pytest
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
install local,models,dev
coevolve env install bfcl
cd "$ROOT"
COEVOLVE_REQUIRE=bfcl,torch exec python -m pytest -q "$@"
