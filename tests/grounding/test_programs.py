"""Which constants of a program a solver who has only the request cannot know."""

from __future__ import annotations

import pytest

from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.grounding.programs import unknown_constants

NAMES = ("to", "note", "amount", "query", "private")
SCHEMA = {"type": "object", "properties": {name: {} for name in NAMES}}
TOOLS = {
    "v.pay": Tool("v.pay", "", SCHEMA, app="v"),
    "v.find": Tool("v.find", "", SCHEMA, app="v", read_only=True),
    "v.login": Tool("v.login", "", {"type": "object", "properties": {}}, app="v"),
}
QUERY = 'Pay Jonas $20 for the second "pizza night", and say: Hello AnnBo.'

GROUNDED = [
    'row = next(r for r in apis.v.find(page_limit=20, sort_by="-age") if r["name"] == "Jonas")',
    'apis.v.pay(to=apis.v.find(query="Jonas")[0]["email"], amount=20)',
    "apis.v.pay(amount=20.0)",
    'apis.v.pay(note="".join(["Ann", "Bo"]))',
    'x = "Ann" + "Bo"\napis.v.pay(note=x)',
    'apis.v.pay(note=f"Hello {apis.v.find()[-1]}, ")',
    'apis.v.pay(note=", ".join(r["name"] for r in apis.v.find()))',
    't = apis.v.login(username="x@y.z", password="secret")["token"]\napis.v.find(access_token=t)',
    'p = {r["account"]: r["password"] for r in apis.v.find()}["v"]\nprint("debug 99", p)',
    "songs = []\nfor page in range(10):\n    got = apis.v.find(page_index=page)\n    songs += got\n"
    "    if len(got) < 20:\n        break",
    "n = 0\nfor r in apis.v.find():\n    n += 1\napis.v.pay(amount=n)",
    "apis.v.find()[1]",
    '"a docstring"\napis.v.find(query=None, private=True)',
    "not ( code",
    'print(f"Found {apis.v.find()}")\nassert apis.v.find(), "nobody"\nraise ValueError("no Bo")',
    'd = {"name": 0}\nd.get("name", 0)',
]
UNGROUNDED = [
    'next(r for r in apis.v.find() if r["name"] == "Ann\'s trip")',
    'apis.v.find(query="Priya")',
    "apis.v.pay(amount=21)",
    "amount = 21\napis.v.pay(amount=amount)",
    "apis.v.pay(amount=apis.v.find()[0] + 1)",
    "n = 19 + 2\napis.v.pay(amount=n)",
    'apis.v.pay(note="".join(["pizza", "Jonas"]))',
    'apis.v.pay(note="pizza" + "Jonas")',
    'x = "pizza"\napis.v.pay(note=f"{x}Jonas")',
    'apis.v.pay(note="pizza night"[:4])',
    'apis.v.pay(note="pizza".replace("pi", "Jonas"))',
    'apis.v.pay(note="{}{}".format("pizza", "Jonas"))',
    'apis.v.pay(note="%s" % "Jonas")',
    "apis.v.pay(note=chr(20))",
    "apis.v.pay(note=bytes([20, 20]).decode())",
    'apis.v.pay(note=b"Jonas".decode())',
    'apis.v.pay(note=f"Dear {apis.v.find()[0]}")',
    'pay = apis.v.pay\npay(note="Dear")',
    'next(r for r in apis.v.find() if r["rating"] > 3)',
    'next(r for r in apis.v.find() if r["rating"] == 1)',
    "apis.v.find()[4]",
    "apis.v.find()[-3]",
    '{r["name"]: r for r in apis.v.find()}["Ann\'s trip"]',
    "apis.v.pay(note=" + "+".join(['"a"'] * 900) + ")",
    "apis.v.pay(card=3)",
    "apis.v.pay(hidden=True)",
    'print(apis.v.pay(note="Dear"))',
    "apis.v.find()[:5]",
    "for n in range(22):\n    pass\napis.v.pay(amount=n)",
    "n = 0\nn += 21\napis.v.pay(amount=n)",
]


@pytest.mark.parametrize("code", GROUNDED)
def test_a_solver_with_the_request_can_write_it(code):
    """Stated constants, what computes from answers, and what is only technical."""
    assert unknown_constants(code, TOOLS, QUERY) == []


@pytest.mark.parametrize("code", UNGROUNDED)
def test_nobody_could_know(code):
    """A name, number, text or place that the request doesn't have, however it is put together."""
    assert unknown_constants(code, TOOLS, QUERY)


def test_what_the_environment_adds_is_free():
    """Arguments of the environment's own style, as they stand there; others of the same name are
    not."""
    style = CodeSyntax(arguments={"v.find": {"size": "50"}}, ends=["me.done"])
    assert not unknown_constants('apis.me.done(status="success")', TOOLS, "Pay.", style)
    assert not unknown_constants("apis.v.find(size=50)", TOOLS, "Pay.", style)
    for code in ('apis.v.find(status="open")', "apis.v.find(size=51)"):
        assert unknown_constants(code, TOOLS, "Pay.", style)
    assert unknown_constants("apis.v.find(size=50)", TOOLS, "Pay.")
