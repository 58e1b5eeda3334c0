"""BFCL's generated start states, what their users know, the effects of calls, and the words for all
128 functions."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict

import pytest
from environments.bfcl_worker import CLASSES, act, opened

from coevolve.environments.client import Pool, Pools
from coevolve.environments.protocol import Tool
from coevolve.records import Start, canonical

pytestmark = pytest.mark.bfcl

ALWAYS_FAILS = "get_outside_temperature_from_weather_com"
SLOT = re.compile(r"\{(\w+)\}")


def options(tool: Tool, name: str, values: dict) -> list:
    """What a user of the state would say for a parameter, else what its schema lists."""
    schema = tool.parameters["properties"][name]
    known = values.get(f"{tool.name}.{name}") or values.get(name) or schema.get("enum") or []
    return known or ([True, False] if schema["type"] == "boolean" else [])


def wander(pool: Pool, seed: int, steps: int = 30) -> tuple[list, Start]:
    """A random walk with typed arguments: (tool, arguments, result) of each call."""
    draw = random.Random(f"wander-{seed}")
    start = pool.start(str(seed))
    session = opened(pool, start)
    calls = []
    while len(calls) < steps:
        tool = pool.tools[draw.choice(session.opened.tools)]
        required = tool.parameters.get("required", [])
        chosen = [
            name
            for name in tool.parameters["properties"]
            if name in required or draw.random() < 0.4
        ]
        offers = {name: options(tool, name, session.opened.values) for name in chosen}
        if any(name in required and not offer for name, offer in offers.items()):
            continue
        calls.append(
            (tool.name, {name: draw.choice(offer) for name, offer in offers.items() if offer})
        )
    results = act(pool, session, *calls)
    pool.close([session])
    return [(*call, result) for call, result in zip(calls, results, strict=False)], start


@pytest.fixture(scope="module")
def walks(pools: Pools) -> list[list]:
    """The calls of random walks in 300 start states."""
    return [wander(pools("bfcl"), seed)[0] for seed in range(300)]


def test_a_start_state_is_a_pure_function_of_seed_and_classes(bfcl):
    """Asked twice it is the same; another seed gives another; the wanted classes are in it."""
    assert bfcl.start("a") == bfcl.start("a") != bfcl.start("b")
    for class_ in CLASSES:
        start = bfcl.start("a", [class_])
        assert class_ in start.config["classes"]
        assert set(start.config["state"]) == set(start.config["classes"])
    assert set(bfcl.start("z", ["TravelAPI", "VehicleControlAPI"]).config["classes"]) == {
        "TravelAPI",
        "VehicleControlAPI",
    }


def test_start_states_vary_and_are_not_official(bfcl):
    """100 seeds give 100 states over all classes and all official pairs of classes; none is an
    official configuration."""
    starts = [bfcl.start(str(seed)) for seed in range(100)]
    assert len({canonical(start) for start in starts}) == 100
    assert {class_ for start in starts for class_ in start.config["classes"]} == set(CLASSES)
    assert len({tuple(sorted(start.config["classes"])) for start in starts}) >= 18
    session = opened(bfcl, Start(name="multi_turn_base_150"))
    assert session.opened.values["access_token"] == ["abc123token"], (
        "an official entry shows its own values"
    )
    assert all("abc123token" not in canonical(start).decode() for start in starts)


def test_typed_calls_on_generated_states_seldom_fail_and_never_raise(walks):
    """3,000 calls with values that a user would know: under a third are refused, no API method
    raises, no state corrupts."""
    tally = Counter()
    for walk in walks[:100]:
        for tool, _, result in walk:
            tally["calls"] += 1
            tally["errors"] += result.error is not None and tool != ALWAYS_FAILS
            tally[result.error] += 1
            assert result.error not in ("exception", "bad_argument", "unknown_tool", "too_large"), (
                tool,
                result,
            )
    assert tally["errors"] < tally["calls"] / 3, tally


def test_most_functions_work_and_every_mutator_shows_effects(bfcl, walks):
    """Over 300 states, every function but one works at some time, and all that the API can change
    shows as effects."""
    worked, changed = set(), set()
    for walk in walks:
        for tool, _, result in walk:
            worked |= {tool} if result.error is None else set()
            changed |= {tool} if result.effects else set()
    assert set(bfcl.tools) - worked == {ALWAYS_FAILS}
    assert not changed & {name for name, tool in bfcl.tools.items() if tool.read_only}
    assert len(changed) == 48, sorted(changed)


def test_effects_and_states_are_equal_in_a_replay(bfcl):
    """The same calls in a fresh session give the same observations, effects and state hashes."""
    for seed in range(12):
        first, start = wander(bfcl, seed)
        session = opened(bfcl, start)
        again = act(bfcl, session, *[(tool, arguments) for tool, arguments, _ in first])
        assert [result for _, _, result in first] == again
        bfcl.close([session])


def test_effects_of_a_call_do_not_depend_on_what_else_was_done(bfcl):
    """New rows go by their content, counters and balances by their difference: an order before an
    order changes nothing."""
    start = bfcl.start("orders", ["TradingBot"])
    order = (
        "place_order",
        {
            "order_type": "Buy",
            "symbol": next(iter(start.config["state"]["TradingBot"]["stocks"])),
            "price": 20,
            "amount": 2,
        },
    )
    login = ("trading_login", {"username": "a", "password": "b"})
    other = (
        "place_order",
        {"order_type": "Sell", "symbol": order[1]["symbol"], "price": 31, "amount": 4},
    )
    alone = act(bfcl, opened(bfcl, start), login, order)[-1]
    later = act(bfcl, opened(bfcl, start), login, other, order)[-1]
    assert alone.observation != later.observation
    assert alone.effects == later.effects and alone.state != later.state


def test_a_row_made_in_the_session_keeps_its_name(bfcl):
    """Cancelling the order just placed names the same row as placing it."""
    start = bfcl.start("orders", ["TradingBot"])
    symbol = next(iter(start.config["state"]["TradingBot"]["stocks"]))
    session = opened(bfcl, start)
    login = ("trading_login", {"username": "a", "password": "b"})
    *_, placed = act(
        bfcl,
        session,
        login,
        ("place_order", {"order_type": "Buy", "symbol": symbol, "price": 20, "amount": 2}),
    )
    order_id = json.loads(placed.observation)["order_id"]
    (cancelled,) = act(bfcl, session, ("cancel_order", {"order_id": order_id}))
    rows = {effect.key for effect in placed.effects if effect.key.startswith("orders/")}
    assert len(rows) == 1 and {effect.key for effect in cancelled.effects} == rows


def test_hidden_state_is_in_the_hash_only(bfcl):
    """Changing the folder is no effect that the official checker would see, yet another state;
    going back restores it."""
    start = bfcl.start("walk", ["GorillaFileSystem"])
    (top,) = start.config["state"]["GorillaFileSystem"]["root"].values()
    folder = next(name for name, item in top["contents"].items() if item["type"] == "directory")
    session = opened(bfcl, start)
    there, back = act(bfcl, session, ("cd", {"folder": folder}), ("cd", {"folder": ".."}))
    assert there.effects == back.effects == []
    assert there.state != session.opened.state == back.state


def test_a_user_knows_a_value_for_every_required_parameter(bfcl):
    """In every generated state; only a token before logging in is yet to come."""
    lacking = set()
    for seed in range(150):
        session = opened(bfcl, bfcl.start(str(seed)))
        for name in session.opened.tools:
            tool = bfcl.tools[name]
            required = tool.parameters.get("required", [])
            lacking |= {
                parameter
                for parameter in required
                if not options(tool, parameter, session.opened.values)
            }
        bfcl.close([session])
    assert lacking == {"access_token"}


def test_every_function_can_be_asked_for_in_words(bfcl):
    """128 functions with at least one clause each; clauses name every required argument; phrases
    refer to known parameters."""
    assert len(bfcl.tools) == 128
    for name, tool in bfcl.tools.items():
        parameters, required = (
            tool.parameters["properties"],
            set(tool.parameters.get("required", [])),
        )
        assert tool.language.do, name
        for clause in tool.language.do:
            assert set(SLOT.findall(clause)) == required, (name, clause)
            assert not re.search(r"[a-z]+_[a-z]|[a-z][A-Z]", SLOT.sub("", clause)), (name, clause)
        assert set(tool.language.optional) == set(parameters) - required, name
        for phrase in (*tool.language.optional.values(), *tool.language.refer.values()):
            assert set(SLOT.findall(phrase)) <= set(parameters), (name, phrase)
        assert set(tool.language.words) <= set(parameters), name


def test_a_phrase_refers_to_a_key_that_the_function_gives(bfcl, walks):
    """Every key that `refer` knows was seen in an output of that function."""
    seen = defaultdict(set)
    for walk in walks:
        for tool, _, result in walk:
            if result.error is None:
                seen[tool] |= set(re.findall(r'"([\w()]+)":', result.observation))
                seen[tool] |= set(re.findall(r"'([\w()]+)':", result.observation))
    for name, tool in bfcl.tools.items():
        assert {key.rpartition(".")[2] for key in tool.language.refer} <= seen[name], name


def test_a_read_that_answers_anew_at_each_call_is_no_goal(bfcl):
    """Called twice in a row, two reads tell two numbers; neither is compared, and no phrase refers
    to what they told."""
    anew = set()
    for seed in range(60):
        session = opened(bfcl, bfcl.start(str(seed)))
        for tool in (bfcl.tools[name] for name in session.opened.tools):
            offers = {
                n: options(tool, n, session.opened.values)
                for n in tool.parameters.get("required", [])
            }
            if tool.read_only and all(offers.values()):
                one, two = act(
                    bfcl, session, *[(tool.name, {n: offer[0] for n, offer in offers.items()})] * 2
                )
                anew |= {tool.name} if one.observation != two.observation else set()
        bfcl.close([session])
    assert anew == {"get_current_speed", "get_outside_temperature_from_google"}
    assert not any(bfcl.tools[name].checked or bfcl.tools[name].language.refer for name in anew)


def test_texts_that_a_user_gives_are_said_in_quotes(bfcl):
    """Every text of more than one word that ends up in the state exactly has its quoted form in
    `words`."""
    exact = [
        "echo.content",
        "send_message.message",
        "post_tweet.content",
        "comment.comment_content",
    ]
    exact += [
        "create_ticket.title",
        "create_ticket.description",
        "resolve_ticket.resolution",
        "set_navigation.destination",
    ]
    for seed in range(60):
        session = opened(bfcl, bfcl.start(str(seed)))
        for key in exact:
            tool, _, parameter = key.partition(".")
            words = bfcl.tools[tool].language.words.get(parameter, {})
            for text in session.opened.values.get(key, []):
                assert words[json.dumps(text)] == f'"{text}"'


def test_doors_and_updates_are_said_in_words(bfcl):
    """Lists and objects among the known values have words of their own: no JSON and no identifier
    in a request."""
    for seed in range(60):
        session = opened(bfcl, bfcl.start(str(seed)))
        for key in ("lockDoors.door", "edit_ticket.updates"):
            tool, _, parameter = key.partition(".")
            for value in session.opened.values.get(key, []):
                said = bfcl.tools[tool].language.words[parameter][
                    json.dumps(value, separators=(",", ":"))
                ]
                assert not re.search(r"[_{}\[\]]", said)


def test_the_hollow_calls_change_nothing_and_every_class_has_one(bfcl):
    """Whatever classes a session offers, one of its harmless calls can be made, works, and leaves
    the state as it was."""
    for class_ in CLASSES:
        session = opened(bfcl, Start(config={"classes": [class_], "state": {}}))
        (call,) = [c for c in bfcl.description.harmless if c["tool"] in session.opened.tools]
        (result,) = act(bfcl, session, (call["tool"], call["arguments"]))
        assert (result.error, result.effects, result.state) == (None, [], session.opened.state)
