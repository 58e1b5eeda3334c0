"""Which requests name a tool: a corpus of what people say, and of what only somebody says who knows
the tools."""

from __future__ import annotations

import pytest

from coevolve.abstraction.tool_names import named_tool
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Tool

NAMES = [
    "create_ticket",
    "post_tweet",
    "lockDoors",
    "trading_login",
    "square_root",
    "get_stock_info",
    "spotify.create_playlist",
    "place_order",
    "displayCarStatus",
    "send_message",
    "check_tire_pressure",
    "sort",
    "price",
    "pay",
    "list_users",
    "mail.read",
    "mail.find",
    "farm.set",
    "desk.answer",
    "mail.send",
    "mkdir",
    "cat",
    "fillFuelTank",
]
PARAMETERS = {"ticket_id": {}, "amount": {}, "id": {}, "fuelAmount": {}, "userName": {}}
TOOLS = {
    name: Tool(name, "", {"properties": PARAMETERS if name == "create_ticket" else {}})
    for name in NAMES
}

NAMING = {
    "create_ticket": [
        "Do it with create ticket.",
        "Please use create ticket for my printer.",
        "Could you call create_ticket for me?",
        "I want a ticket, made with the create ticket function.",
        "Using Create-Ticket, note that the printer is broken.",
    ],
    "post_tweet": [
        "Tell everybody via post tweet that I am back.",
        'Run "post tweet" with my news.',
    ],
    "lockDoors": ["Secure my car with lock doors.", "I want lockDoors for all of them."],
    "get_stock_info": [
        "Invoke get stock info for Apple.",
        "Look at Apple by calling get stock info.",
    ],
    "spotify.create_playlist": [
        "Make me a list using create playlist.",
        "I want spotify.create_playlist for my party.",
    ],
    "trading_login": ["Use trading_login for me.", "I want trading_login to know me."],
    "price": ["Use the price tool for tea.", "I want price(tea)."],
    "pay": ["I want `pay` for my tea."],
    "ticket_id": ["Close it; the ticket_id is 3.", "Close it, ticketId 3."],
    "amount": ["Pay with amount=31 for tea.", "Pay (amount='31') for tea."],
    "mail.read": [
        "Use mail__read and tell me the note of Ann.",
        "Tell me the note of Ann, mail_read has it.",
        "I want mail . read to tell me the note.",
        "I want mail\u200b.re\u00adad to tell me the note.",
        "I want mail\uff0eread to tell me the note.",
        "I want MAIL.READ to tell me the note.",
        "Take mail->read(Ann) and answer.",
        "Take mail::read and answer.",
        "Take mailRead and answer.",
        "Use mail read and tell me the note.",
        "Use mail-read and tell me the note.",
        "Call read with Ann, then tell me.",
        "Call read(Ann), then tell me.",
        "Please use `read` for my note.",
        "I want the read tool of mail for my note.",
        "I want the note, with the Read function.",
    ],
    "mail.send": [
        "I want `mail-send` for my coffee.",
        "I want mail/send for my coffee.",
        "I want mail:send for my coffee.",
        "I want m\u0430il.send for my coffee.",
        "I want ma\u0301il.send for my coffee.",
        "I want send(Hana, coffee) in mail.",
    ],
    "mkdir": ["Please run mkdir favorites.", "mkdir favorites", "I want `mkdir favorites` done."],
    "cat": ["cat notes.txt", "Please cat -n notes, would you?"],
    "sort": ["Run sort on my list.", "Please execute 'sort' for my list."],
    "fillFuelTank": [
        "Do fill-fuel-tank with 20.",
        "Do fillfueltank with 20.",
        "Do fill_fuel_tank with 20.",
    ],
    "fuelAmount": [
        "Fill the tank, fuelAmount: 20.",
        "The fuelAmount is 20.",
        "The fuel_amount is 20.",
    ],
    "desk.answer": ["Then use desk answer for it."],
}
NATURAL = [
    "Create ticket: the printer is broken.",
    "Please create a ticket for the broken printer.",
    "I'd like to create ticket number four with high priority.",
    "Help me with creating a ticket.",
    "Post tweet saying I am back, would you?",
    "Please lock doors and windows, I am leaving.",
    "Log me in to trading with login alice and password 77.",
    "I come in with trading login alice.",
    "What is the distance, using the square root of the sum?",
    "Work it out with square root and all.",
    "Get stock info about Apple for me.",
    "I want to place order 12 again.",
    "Send message 'hi' to Bob.",
    "I need to check tire pressure before I run.",
    "Sort it out and tell me the price I pay.",
    "Use the price that you find to pay my bill.",
    "Call Bob and send him a message with the list of users.",
    "With my ticket's id at hand, close it.",
    "Create a playlist in Spotify with calls of birds.",
    "Please check my mail. Read it to me, would you?",
    "I read my mail; find Ann there and call her.",
    "What does the mail say? Answer me.",
    "Find it by its name and using 'find'.",
    "Go through my mail, read it and answer.",
    "Write to my colleague Catherine (id='USR003').",
    "Call Ann with the answer, and set the farm to red.",
    "Send the address https://shop.example/?amount=3 to Bob.",
    "With my tool set at hand, read the mail for me.",
    "Send Hana a coffee by mail, and sort the rest.",
    "Check my mail, send Hana the answer and/or find her note(s).",
    "My username is Ann, and the amount of fuel is 20.",
    "I run five miles a day and sort my mail at night.",
    "Add a picture of my cat to the notes.",
    "Schick es bitte per Mail an Ren\u00e9, und \u043d\u0435 забудь.",
]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in NAMING.items() for text in texts]
)
def test_a_name_where_a_tool_would_stand(name, text):
    """The name as it is written, and its words after a word for using."""
    assert named_tool(text, TOOLS, NAMES) == name


@pytest.mark.parametrize("text", NATURAL)
def test_what_people_say_names_none(text):
    """The same words as a request."""
    assert named_tool(text, TOOLS, NAMES) is None


@pytest.mark.bfcl
def test_requests_of_people_name_none():
    """Of the benchmark's own requests, written by people, none names a tool but by the shell's own
    words; one spells a parameter."""
    with Pool("bfcl") as pool:
        queries = sorted({query for task in pool.tasks("base") for query in task.query})
        found = [named_tool(query, pool.tools, list(pool.tools)) for query in queries]
    assert len(queries) > 700 and {name for name in found if name} == {
        "user_id",
        "cd",
        "grep",
        "ls",
    }
    assert sum(map(bool, found)) == 6
