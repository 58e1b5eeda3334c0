"""Provenance on hand-made steps, against answers written by hand, and a property over generated
ones."""

import json
import random

from coevolve.grounding.sources import GIVEN, ValueSource, at, output, sources
from coevolve.records import Call, Step


def step(tool, arguments, observation, error=None):
    text = observation if isinstance(observation, str) else json.dumps(observation)
    return Step(turn=0, action=Call(tool, arguments), observation=text, error=error)


def last(*steps):
    return sources(list(steps))[-1]


def test_a_value_seen_in_an_output_is_observed_there():
    """The record's text comes from the read, its name was given."""
    found = last(
        step("clinic.read", {"name": "Ann"}, {"name": "Ann", "text": "amber"}),
        step("farm.set", {"name": "Ann", "text": "amber"}, {"ok": True}),
    )
    assert found == {("name",): GIVEN, ("text",): ValueSource(0, ("text",))}


def test_an_echo_is_no_source():
    """A value that an argument held before the output showed it stays given, for later steps
    too."""
    found = last(
        step("farm.set", {"name": "Ann", "text": "amber"}, {"saved": "amber"}),
        step("clinic.read", {"name": "Ann"}, {"text": "amber"}),
        step("gym.set", {"name": "Bob", "text": "amber"}, {}),
    )
    assert found[("text",)] == GIVEN


def test_small_values_need_an_agreeing_name():
    """Ticket 1 is the id that came back, priority 1 is not; nor are short strings and truth
    values."""
    made = step("create_ticket", {"title": "printer"}, {"id": 1, "open": True, "code": "k"})
    assert last(made, step("get_ticket", {"ticket_id": 1}, {}))[("ticket_id",)] == ValueSource(
        0, ("id",)
    )
    found = last(made, step("edit", {"priority": 1, "urgent": True, "label": "k"}, {}))
    assert set(found.values()) == {GIVEN}


def test_a_small_literal_under_another_name_hides_nothing():
    """Priority 1 was given, and still ticket 1 is known only from the output."""
    found = last(
        step("create_ticket", {"priority": 1}, {"id": 1}),
        step("close_ticket", {"ticket_id": 1}, {}),
    )
    assert found[("ticket_id",)] == ValueSource(0, ("id",))


def test_types_matter_as_in_json():
    """10 and 10.0 are equal, 10 and "10" are not, true is not 1."""
    seen = step("price", {"of": "tea"}, {"price": 10.0, "flag": 1})
    assert last(seen, step("pay", {"amount": 10}, {}))[("amount",)] == ValueSource(0, ("price",))
    assert last(seen, step("pay", {"amount": "10"}, {}))[("amount",)] == GIVEN
    assert last(seen, step("pay", {"flag": True}, {}))[("flag",)] == GIVEN


def test_the_best_of_several_sources():
    """An agreeing name wins over an earlier step; without one the same app wins, then the
    earliest."""
    first = step("gym.read", {"name": "Ann"}, {"note": "amber"})
    second = step("farm.look", {"name": "Ann"}, {"label": "amber"})
    third = step("gym.look", {"name": "Ann"}, {"text": "amber"})
    assert last(first, second, third, step("farm.set", {"text": "amber"}, {}))[
        ("text",)
    ] == ValueSource(2, ("text",))
    assert last(first, second, third, step("farm.set", {"x": "amber"}, {}))[("x",)] == ValueSource(
        1, ("label",)
    )
    assert last(first, second, third, step("mail.set", {"x": "amber"}, {}))[("x",)] == ValueSource(
        0, ("note",)
    )


def test_lists_are_followed_or_taken_whole():
    """A list equal to an observed one is one argument; the members of any other are followed."""
    seen = step("ls", {}, {"files": ["a.txt", "b.txt"]})
    assert last(seen, step("zip", {"names": ["a.txt", "b.txt"]}, {})) == {
        ("names",): ValueSource(0, ("files",))
    }
    found = last(seen, step("zip", {"names": ["b.txt", "c.txt"]}, {}))
    assert found == {("names", 0): ValueSource(0, ("files", 1)), ("names", 1): GIVEN}


def test_text_outputs_and_failed_steps():
    """A text that is no JSON is one value; a failed step is no source; code has no arguments."""
    assert last(step("tell", {}, "amber road"), step("say", {"text": "amber road"}, ""))[
        ("text",)
    ] == ValueSource(0, ())
    denied = step("tell", {}, {"hint": "amber"}, error="denied")
    assert last(denied, step("say", {"text": "amber"}, ""))[("text",)] == GIVEN
    assert sources([Step(turn=0, action="print(1)", observation="1")]) == [{}]
    assert output("NaN") == "NaN" and output("[" * 5000) == "[" * 5000 and output("") == ""


def test_a_source_always_holds_the_value():
    """On 300 random episodes each observed argument equals the part of the earlier, successful
    output that is named."""
    values = ["amber", "x", 1, 12, 12.0, True, None, "12", ["amber", 12]]
    observed = 0
    for seed in range(300):
        rng = random.Random(f"provenance-{seed}")
        steps = [
            step(
                f"{rng.choice('ab')}.t",
                {key: rng.choice(values) for key in rng.sample(["id", "text", "n"], 2)},
                {key: rng.choice(values) for key in rng.sample(["id", "text", "row_id"], 2)},
                rng.choice([None, None, "denied"]),
            )
            for _ in range(8)
        ]
        for index, found in enumerate(sources(steps)):
            for path, source in found.items():
                if source.step is not None:
                    observed += 1
                    assert source.step < index and steps[source.step].error is None
                    assert at(output(steps[source.step].observation), source.path) == at(
                        steps[index].action.arguments, path
                    )
    assert observed > 300
