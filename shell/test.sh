#!/usr/bin/env bash
# All tests, from nothing: installs what they need, the bfcl environments included, then runs pytest.
#   shell/test.sh                     everything that CI runs
#   shell/test.sh -m slow             what takes minutes
#   shell/test.sh tests/signals -x    anything else goes to pytest
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
install local,models,serve,dev
coevolve env install bfcl
coevolve env install bfcl-official
cd "$ROOT"
COEVOLVE_REQUIRE=bfcl,official,torch,serve exec python -m pytest -q "$@"
