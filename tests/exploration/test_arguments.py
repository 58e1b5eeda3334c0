"""Typed arguments: where values come from, and which one wins."""

from __future__ import annotations

import random

import pytest

from coevolve.environments.protocol import Language, Tool
from coevolve.exploration.arguments import KnownValues, draw, leaves, resemblance
from coevolve.exploration.schemas import fits, invent, shapes
from coevolve.records import Call, Step

TEXT = {"type": "string"}


def tool(name: str, properties: dict, required: list[str] = [], **more) -> Tool:  # noqa: B006
    return Tool(
        name,
        name,
        {"type": "object", "properties": properties, "required": required},
        name.split(".")[0],
        **more,
    )


def draws(tool_: Tool, parameter: str, known: KnownValues, n: int = 200) -> set:
    return {draw(random.Random(i), tool_, parameter, known) for i in range(n)}


@pytest.mark.parametrize(
    ("parameter", "key", "likeness"),
    [
        ("ticket_id", "ticket_id", 1),
        ("ticketId", "ticket_id", 1),
        ("symbol", "symbols", 1),
        ("ticket_id", "id", 0.6),
        ("content", "file_content", 0.6),
        ("id", "idle", 0),
        ("name", "ok", 0),
        ("ticket_id", "order_id", 0),
        ("x", "", 0),
    ],
)
def test_names_resemble_by_their_last_words(parameter, key, likeness):
    """Same words, singular or plural, are 1; one name at the end of the other 0.6; anything else
    nothing."""
    assert resemblance(parameter, key) == resemblance(key, parameter) == likeness


@pytest.mark.parametrize(
    ("value", "schema", "fit"),
    [
        ("a", TEXT, True),
        (1, TEXT, False),
        (True, {"type": "integer"}, False),
        (1, {"type": "integer"}, True),
        (1.5, {"type": "integer"}, False),
        (1, {"type": "number", "maximum": 0.5}, False),
        ([1, 2], {"type": "array", "items": {"type": "number"}}, True),
        (["a"], {"type": "array", "items": {"type": "number"}}, False),
        ("c", {"type": "string", "enum": ["a", "b"]}, False),
        (None, {"type": ["string", "null"]}, True),
    ],
)
def test_values_fit_their_schema(value, schema, fit):
    """Type, bounds and enum decide; a truth value is no number."""
    assert fits(value, schema) is fit


def test_leaves_carry_the_key_they_stand_under():
    """Members of a list have the list's key, and a flat list is a value itself."""
    shown = {"a": {"b": 1}, "names": ["x", "y"], "rows": [{"id": 3}], "none": None}
    names = [("names", ["x", "y"]), ("names", "x"), ("names", "y")]
    assert list(leaves(shown)) == [("b", 1), *names, ("id", 3)]


def test_the_more_exact_name_of_a_known_value_wins():
    """`tool.parameter` hides `parameter`."""
    known = KnownValues({"name": ["other"], "bank.pay.name": ["ann", "bob"]})
    assert draws(tool("bank.pay", {"name": TEXT}), "name", known) == {"ann", "bob"}
    assert draws(tool("bank.ask", {"name": TEXT}), "name", known) == {"other"}


def test_an_observed_value_is_used_and_a_failed_step_shows_nothing():
    """What an earlier call told is an argument now and then; what stood in an error never is."""
    known = KnownValues({"note": ["mine"]})
    known.see(Step(0, Call("mail.read"), '{"note": "seen"}'), tool("mail.read", {}))
    known.see(Step(0, Call("mail.read"), '{"note": "wrong"}', "denied"), tool("mail.read", {}))
    assert draws(tool("bank.pay", {"note": TEXT}), "note", known) == {"mine", "seen"}


def test_a_value_to_be_looked_up_is_never_taken_from_the_user():
    """`lookup_only` parameters take observed values alone once there are any, of their own app
    where it has told one."""
    known = KnownValues({"id": ["guess"]})
    pay = tool("bank.pay", {"id": TEXT}, language=Language(do=["pay {id}"], lookup_only=["id"]))
    assert draws(pay, "id", known) == {"guess"}
    known.see(Step(0, Call("bank.find"), '{"id": "i7"}'), tool("bank.find", {}))
    known.see(Step(0, Call("mail.find"), '{"id": "i8"}'), tool("mail.find", {}))
    assert draws(pay, "id", known) == {"i7"}


def test_without_a_resembling_key_a_looked_up_value_is_taken_by_its_type():
    """An amount to be looked up takes a price where no output is called amount."""
    language = Language(do=["pay {amount}"], lookup_only=["amount"])
    pay = tool("shop.pay", {"amount": {"type": "integer"}}, ["amount"], language=language)
    known = KnownValues({})
    known.see(Step(0, Call("shop.price"), '{"price": 31, "item": "tea"}'), tool("shop.price", {}))
    assert draws(pay, "amount", known) == {31}


def test_a_literal_value_is_never_taken_from_an_output():
    """A password that some output shows is not the one that the user logs in with; without a known
    one, none is borrowed."""
    known = KnownValues({"login.password": ["moss"]})
    known.see(Step(0, Call("show.it"), '{"password": "fern", "number": 4711}'), tool("show.it", {}))
    login = tool(
        "login",
        {"password": TEXT, "pin": {"type": "integer"}},
        language=Language(literal=["password", "pin"]),
    )
    assert draws(login, "password", known) == {"moss"}
    assert 4711 not in draws(login, "pin", known)


def test_a_value_to_be_looked_up_that_the_user_knows_is_not_replaced_by_any_other():
    """Before anything resembling was seen, a known token is better than whatever has its type."""
    known = KnownValues({"token": ["tok1"]})
    known.see(Step(0, Call("show.it"), '{"color": "red"}'), tool("show.it", {}))
    book = tool("book", {"token": TEXT}, language=Language(lookup_only=["token"]))
    assert draws(book, "token", known) == {"tok1"}


def test_a_value_that_nobody_can_refer_to_is_avoided():
    """Of two observed values the one with a phrase is taken nearly always."""
    told = tool("mail.read", {}, language=Language(refer={"note": "the note"}))
    hidden = tool("mail.list", {}, language=Language())
    known = KnownValues({})
    known.see(Step(0, Call("mail.read"), '{"note": "told"}'), told)
    known.see(Step(0, Call("mail.list"), '{"note": "hidden"}'), hidden)
    drawn = [
        draw(random.Random(i), tool("mail.send", {"note": TEXT}), "note", known) for i in range(200)
    ]
    assert drawn.count("told") > 160


def test_a_value_that_was_not_found_is_avoided():
    """After `not_found` the other values come far more often."""
    known = KnownValues({"name": ["gone", "here"]})
    find = tool("bank.find", {"name": TEXT})
    known.see(Step(0, Call("bank.find", {"name": "gone"}), "{}", "not_found"), find)
    drawn = [draw(random.Random(i), find, "name", known) for i in range(200)]
    assert drawn.count("gone") < 30 < drawn.count("here")


def test_invented_values_fit_the_schema():
    """Without any value the schema alone gives one that fits, bounds and enums included."""
    schemas = [
        {"type": "integer", "minimum": 3, "maximum": 5},
        {"type": "number", "minimum": 0.5, "maximum": 0.75},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
        {"type": "string"},
        {},
    ]
    for schema in schemas:
        values = [invent(random.Random(i), schema) for i in range(50)]
        assert all(fits(value, schema) for value in values)
        assert all(
            len(value) >= schema.get("minItems", 0) for value in values if isinstance(value, list)
        )


def test_shapes_are_the_required_parameters_and_each_choice_of_optional_ones():
    """The base, one optional parameter each, all of them, and the alternatives of anyOf; in the
    schema's order."""
    assert shapes(tool("t", {"a": TEXT, "b": TEXT, "c": TEXT}, ["b"])) == [
        ("b",),
        ("a", "b"),
        ("b", "c"),
        ("a", "b", "c"),
    ]
    assert shapes(tool("t", {})) == [()]
    either = Tool(
        "t", "", {"properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a", "b"]}]}
    )
    assert shapes(either) == [(), ("a",), ("b",), ("a", "b")]
