"""The same program with its changes the other way round."""

from __future__ import annotations

import pytest

from coevolve.agents.code.order import reordered
from coevolve.environments.protocol import Tool

SCHEMA = {"type": "object", "properties": {}}
TOOLS = {
    name: Tool(name, "", SCHEMA, app="v", read_only=name == "v.find")
    for name in ("v.pay", "v.find", "v.make", "v.login", "me.done")
}


@pytest.mark.parametrize(
    ("code", "other"),
    [
        (
            "apis.v.pay(a=1)\napis.v.pay(a=2)\napis.me.done()",
            "apis.v.pay(a=2)\napis.v.pay(a=1)\napis.me.done()",
        ),
        (
            "x = apis.v.find()\napis.v.pay(x)\ny = apis.v.find()\napis.v.pay(y)",
            "x = apis.v.find()\ny = apis.v.find()\napis.v.pay(y)\napis.v.pay(x)",
        ),
        ("x = apis.v.make()\napis.v.pay(x)\napis.me.done(answer=x)", None),
        (
            "xs = []\nfor r in apis.v.find():\n    apis.v.pay(r)\n    xs.append(r)\n"
            "apis.v.make(xs)",
            None,
        ),
        (
            "apis.v.pay([row for row in a])\napis.v.pay([row for row in b])",
            "apis.v.pay([row for row in b])\napis.v.pay([row for row in a])",
        ),
        (
            "me = apis.me\npay = apis.v.pay\npay(a=1)\npay(a=2)\nme.done()",
            "me = apis.me\npay = apis.v.pay\npay(a=2)\npay(a=1)\nme.done()",
        ),
        ("t = apis.v.login()\napis.v.pay(t)\napis.me.done()", None),
        ("x = 1\napis.v.pay(x)\nx = 2\napis.v.pay(x)", None),
        ("not ( code", None),
        ("", None),
    ],
)
def test_changes_change_places_where_names_allow(code, other):
    """Looks come first, the end stays last; statements that share a changed name stay in order."""
    assert reordered(code, TOOLS, ["me.done"]) == other
