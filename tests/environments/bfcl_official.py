"""The official executor and checker for the tests: JSON lines in, JSON lines out; run by the bfcl
environment's own Python.

A request is {"entry": official or made-up entry, "turns": [[action]], "reference": [[action]]?};
the reply holds the official `outputs` of each turn and, where there is a reference, the `verdict`
on the turns in a fresh process.
"""

from __future__ import annotations

import json
import sys

from bfcl_parity import fresh, official, official_verdict, text

for line in sys.stdin:
    request = json.loads(line)
    entry, reply = request["entry"], {}
    arguments = (
        entry["initial_config"],
        entry["involved_classes"],
        "policy",
        entry["id"],
        "long_context" in entry["id"],
    )
    reply["outputs"] = [
        official.execute_multi_turn_func_call([text(action) for action in turn], *arguments)[0]
        for turn in request["turns"]
    ]
    fresh("policy")
    if reference := request.get("reference"):
        raw = [[text(action) for action in turn] for turn in reference]
        reply["verdict"] = official_verdict("judged", entry, request["turns"], raw)
    print(json.dumps(reply), flush=True)
