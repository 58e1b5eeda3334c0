"""Who lives in the self-made AppWorld root, and what they have: all of it invented here, nothing from the benchmark.

Plain data; `builder` turns it into records through the apps' own models and APIs. Every person has something in each
of the nine apps, so that any of them can be the supervisor of a task.
"""

from __future__ import annotations

from typing import NamedTuple


class Person(NamedTuple):
    first: str
    last: str
    birthday: str
    sex: str
    city: str
    relationships: tuple[str, ...]
    """What the others call this person in their contacts, in turn."""

    @property
    def email(self) -> str:
        return f"{self.first.lower()}.{self.last.lower()}@example.com"

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"


PEOPLE = (
    Person("Iris", "Novakova", "1990-02-03", "female", "Lakewood", ("friend", "coworker")),
    Person("Tomas", "Albright", "1988-07-12", "male", "Fairhaven", ("friend", "roommate")),
    Person("Lena", "Mossop", "1993-11-30", "female", "Lakewood", ("sibling", "friend")),
    Person("Omar", "Reyland", "1985-04-21", "male", "Stillwater", ("coworker", "manager")),
    Person("Priya", "Castell", "1996-09-08", "female", "Fairhaven", ("friend", "coworker")),
    Person("Jonas", "Weirdale", "1979-01-17", "male", "Stillwater", ("roommate", "friend")),
)

ARTISTS = (
    ("Tin Larks", "folk"),
    ("Volt Avenue", "electronic"),
    ("The Quiet Tram", "indie"),
    ("Saffron Drum", "jazz"),
)
SONGS = (
    # title, artist, seconds, rating, plays
    ("Harbour Lamp", 0, 184, 4.1, 320),
    ("Cedar Line", 0, 201, 3.4, 210),
    ("Slow Meadow", 0, 233, 4.7, 540),
    ("Night Grid", 1, 262, 3.9, 610),
    ("Pulse Park", 1, 245, 2.8, 150),
    ("Copper Circuit", 1, 219, 4.4, 480),
    ("Rain on Platform Nine", 2, 198, 4.6, 720),
    ("Paper Umbrella", 2, 176, 3.1, 95),
    ("Last Tram Home", 2, 254, 4.0, 405),
    ("Saffron Street", 3, 301, 4.3, 265),
    ("Blue Kettle", 3, 287, 3.7, 180),
    ("Seven Lanterns", 3, 322, 4.9, 830),
    ("Barley Road", 0, 207, 3.2, 140),
    ("The Miller's Dog", 0, 195, 2.9, 88),
    ("Lantern Hill", 0, 226, 3.8, 301),
    ("Wool and Rain", 0, 241, 3.6, 177),
    ("Ferry at Dawn", 0, 188, 4.2, 366),
    ("Old Stone Bridge", 0, 214, 2.7, 61),
    ("Seed and Plough", 0, 203, 3.3, 119),
    ("Winter Orchard", 0, 259, 4.5, 452),
    ("Heather Song", 0, 176, 3.5, 190),
    ("Static Garden", 1, 248, 3.0, 205),
    ("Neon Harvest", 1, 233, 4.3, 514),
    ("Voltage Lullaby", 1, 271, 3.6, 233),
    ("Glass Antenna", 1, 225, 2.6, 74),
    ("Midnight Relay", 1, 254, 4.1, 427),
    ("Low Orbit", 1, 238, 3.3, 160),
    ("Amber Modem", 1, 217, 3.8, 288),
    ("Switchboard", 1, 209, 2.9, 97),
    ("Bicycle Weather", 2, 192, 3.9, 338),
    ("Letters to the Landlord", 2, 221, 3.4, 151),
    ("Corner Shop Radio", 2, 187, 4.2, 402),
    ("Borrowed Coat", 2, 206, 2.8, 83),
    ("Half Past Summer", 2, 199, 4.5, 561),
    ("Tin Roof Choir", 2, 235, 3.2, 128),
    ("Stairwell", 2, 181, 3.7, 244),
    ("Green Ticket", 2, 173, 3.0, 109),
    ("Postcards from Nowhere", 2, 228, 4.4, 489),
    ("Velvet Corridor", 3, 295, 3.5, 171),
    ("Brass Monday", 3, 276, 4.0, 312),
    ("Smoke and Cinnamon", 3, 308, 4.6, 598),
    ("Late Train Blues", 3, 331, 3.1, 104),
    ("Cobblestone Waltz", 3, 263, 3.8, 259),
    ("Umber", 3, 284, 2.7, 66),
    ("Two Spoons", 3, 247, 3.4, 142),
    ("The Long Reed", 3, 319, 4.2, 377),
)
ALBUMS = (("Lamps and Meadows", 0), ("Grid City", 1), ("Timetable", 2), ("Kettle and Lantern", 3))

SELLERS = ("Brightwood Goods", "Nimbus Supply")
PRODUCTS = (
    # name, type, seller, price, days
    ("Oakline Desk Lamp", "lamp", 0, 34.5, 3),
    ("Nimbus Travel Mug", "mug", 1, 18.0, 2),
    ("Fernhill Notebook", "notebook", 0, 7.25, 4),
    ("Pebble Wireless Mouse", "mouse", 1, 22.9, 2),
    ("Harvest Cutting Board", "kitchenware", 0, 27.4, 5),
    ("Skylark Headphones", "headphones", 1, 89.0, 3),
    ("Willow Throw Blanket", "blanket", 0, 41.0, 6),
    ("Cobalt Water Bottle", "bottle", 1, 15.6, 2),
)

NOTES = (
    ("Weekend groceries", "- oat milk\n- sourdough bread\n- red apples", ("shopping",)),
    ("Gift ideas", "- a travel mug\n- two concert tickets\n- a cook book", ("gifts",)),
    ("Garden plan", "- sow the carrots\n- trim the hedge\n- water the ferns", ("home", "garden")),
    ("Reading list", "- The Salt Road\n- Winter Harbour\n- A Field of Clocks", ("books",)),
)
PROJECTS = (
    ("Home", ("Fix the kitchen tap", "Clean the gutters", "Paint the fence")),
    ("Office", ("Write the quarterly report", "Book the meeting room", "Order new badges")),
)
LABELS = ("urgent", "waiting")
FILES = (
    ("documents/packing_list.txt", "passport, charger, rain jacket"),
    ("documents/budget.txt", "rent 900, food 320, travel 140"),
    ("photos/harbour.jpg", "a picture of the harbour"),
    ("downloads/manual.txt", "hold the button for five seconds"),
)
LETTERS = (
    ("documents/packing.txt", "passport, charger, rain jacket, two books"),
    ("documents/plan_for_june.txt", "paint the shed, visit Greta, three days at the lake"),
    ("documents/soup.txt", "two leeks, four potatoes, cream, a pinch of nutmeg"),
)
"""Files that are there in the states of the held-out tasks alone."""
EMAILS = (
    ("Dinner on {day}", "Shall we meet at seven at the noodle place?"),
    ("Notes from the {day} workshop", "The slides are with Omar; the next date is in June."),
    ("Book club, {day} group", "We read Winter Harbour this month."),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
"""One for each person, so that no two emails have one subject."""
MESSAGES = (
    "Are you coming to the lake on Sunday?",
    "I left your umbrella at the desk.",
    "Happy to help with the move!",
)
ALARMS = (("07:10", "Morning run"), ("08:30", "Water the ferns"), ("21:45", "Read a chapter"))
PAYMENTS = ((12.5, "noodle lunch"), (30.0, "concert tickets"), (8.75, "coffee beans"))
REQUESTS = ((16.0, "taxi to the station"), (21.5, "birthday cake"))
EXPENSES = ((60.0, "boat rental"), (42.0, "pizza night"))
