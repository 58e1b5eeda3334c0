#!/usr/bin/env bash
# All tests, from nothing: installs what they need, the benchmarks' environments included, then runs
# pytest.
#   shell/test.sh                     everything that CI runs
#   shell/test.sh -m slow             what takes minutes
#   shell/test.sh tests/signals -x    anything else goes to pytest (-n 0: in one process)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
install local,models,serve,verl-cpu,dev
for environment in bfcl bfcl-official appworld; do
    coevolve env install "$environment"
done
required=bfcl,official,appworld,torch,serve
# verl has no release for Python 3.13 and later.
python -c 'import sys; sys.exit(sys.version_info >= (3, 13))' && required=$required,verl
cd "$ROOT"
COEVOLVE_REQUIRE=$required exec python -m pytest -q -n 2 --dist loadfile "$@"
