"""Which numbers a text says, and which only stand in it as a part of another one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from coevolve.environments.protocol import Tool
from coevolve.grounding.arguments import grounded
from coevolve.grounding.numbers import numbers, states_number
from coevolve.grounding.texts import mentions

SAYS = {
    "1,500 or $1500.00 or 1.5 thousand": [1500, 1500, 1500],
    "1\u00a0500, 1'500 and 1.5e3": [1500, 1500, 1500],
    "1,234,567 and 12.50%": [1234567, 12.5],
    "-4, \u22124, minus 4, Negative 4, -$4, minus four": [-4] * 6,
    "2-5 people, 2.5-3.5 km": [2, 5, 2.5, 3.5],
    "- 20 gallons (30), 40. 50-gallon, $60/month": [20, 30, 40, 50, 60],
    "9 minus 4, 9% minus $4, the price minus 4": [9, 4, 9, 4, 4, -4],
    "nine minus four, set it to minus nine": [9, 4, -9],
    "the mean of 2,3,5 and [7,8]": [2, 3, 5, 7, 8],
    "three, twenty and Twenty-five": [3, 20, 25],
    "three hundred, two thousand five, fifteen hundred": [300, 2005, 1500],
    "one hundred and two million three thousand and forty-one": [102003041],
    "20.5 20,000 20 thousand -20 twenty-one": [20.5, 20000, 20000, -20, 21],
    "1e-05 and 0.25": [0.00001, 0.25],
}
SAYS_NONE = [
    "8:20 or 20:15:00",
    "20/11/1999",
    "1999-11-20",
    "20.11.1999",
    "version 2.5.1",
    "flat B17",
    "flat B-17",
    "USR17",
    "20th",
    "007",
    "20k",
    "20\u00bd",
    "20 1/2 cups",
    "20 and a half",
    "three and a half",
    "hundreds",
    "one two three",
    "two-thirds",
    "20 000",
    "20 dozen",
    "someone",
    "1234,567",
]


@pytest.mark.parametrize("text", SAYS)
def test_numbers_as_people_write_them(text):
    """Each as what it is read as, those in digits first."""
    assert list(numbers(text)) == [Decimal(str(value)) for value in SAYS[text]]


@pytest.mark.parametrize("text", SAYS_NONE)
def test_digits_that_are_no_number_of_things(text):
    """Times, dates, codes, ordinals, and words that belong to a longer number."""
    assert not list(numbers(text))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (20, "I want 20,000 gallons"),
        (20, "I want 20.5 gallons"),
        (20, "I want -20 gallons"),
        (20, "fill it by 8:20"),
        (20, "since 20/11/1999"),
        (17, "make it 1.17"),
        (17, "make it minus 17"),
        (-17, "make it 17"),
        (3, "twenty-three"),
    ],
)
def test_a_part_of_another_number_says_no_argument(value, text):
    """For a number and, but for words before it, for a text of digits."""
    tool = Tool("fill", "", {"properties": {"amount": {}}})

    def verdict(value, text):
        return grounded({"amount": value}, ("amount",), tool, text).kind

    assert verdict(value, text) == "unknown"
    assert verdict(float(value), f"{text}; {value}") == "stated"
    assert "minus" in text or not mentions(text, str(value))


def test_texts_of_digits_stand_among_other_signs():
    """In a path, a list, at the end of a sentence, with a port after an address."""
    assert (
        mentions("docs/2024/report", "2024")
        and mentions("2,3,5", "3")
        and mentions("ticket 7216.", "7216")
    )
    assert (
        mentions("10.0.0.1:80", "10.0.0.1")
        and not mentions("10.0.0.1", "10.0")
        and not mentions("20,000", "000")
    )


def test_numbers_beyond_any_limit():
    """Digits without end, great exponents and all sorts of signs are read without an error."""
    assert states_number("9" * 5000, 10**5000 - 1) and not states_number("9" * 5000, 10**5000)
    assert states_number("9007199254740993", 2**53 + 1) and not states_number(
        "9007199254740993", 2**53
    )
    assert not states_number("minus " * 2000 + "1e999 " + "1," * 2000 + "1/" * 2000, 7)
