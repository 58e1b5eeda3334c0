"""Names, words and sentences that generated start states and their users are made of. Written for this project."""

from __future__ import annotations

FIRST_NAMES = (
    "Amara Bastian Celeste Dmitri Elif Farid Greta Hiroshi Ingrid Jonas Kavya Leif Marisol Nadim Odette Pavel Quinn Rosalind "
    "Soren Tamsin Umar Vesna Wilhelm Ximena Yusuf Zelda"
).split()
LAST_NAMES = (
    "Abernathy Bergstrom Castellanos Delacroix Eriksen Fontaine Grimaldi Hollister Ivanova Jankowski Kowalczyk Lindqvist "
    "Marchetti Nakagawa Okafor Petrov Quispe Rosenthal Salazar Thorne Underhill Vasquez Whitlock Yilmaz"
).split()
HANDLES = (
    "tidal_notes brassfern copperlane duskwalker emberfield fogharbor greenloft hazelink inkwell_42 juniperly kitehill "
    "lanternbay mapledesk northpier orchardist paperkite"
).split()
PASSWORDS = (
    "moss-Lantern-71",
    "Quartz!harbor9",
    "velvetOrbit_55",
    "plum*Cascade3",
    "Anchor^Birch28",
    "tulipEngine84",
)

ROOTS = "home studio atelier desk lab office garage library".split()
FOLDERS = (
    "minutes drafts invoices photos recipes sketches experiments tutorials contracts payroll surveys blueprints lyrics "
    "harvest itineraries manuscripts"
).split()
SUBFOLDERS = "old pending signed review spring autumn shared spare".split()
STEMS = (
    "agenda inventory roster ledger summary outline checklist budget schedule glossary feedback journal catalog timetable "
    "proposal briefing measurements forecast"
).split()
SUFFIXES = ("txt", "md", "csv", "log")
NEW_FILES = (
    "fresh.txt",
    "handover.md",
    "todo_list.txt",
    "results.csv",
    "scratch.log",
    "thanks.txt",
)
NEW_FOLDERS = ("keepsakes", "outbox", "favorites", "to_print", "weekend", "finished")

LINES = (
    "call the printer about the blue covers",
    "three crates of apples arrived on Monday",
    "the budget for paint is nearly used up",
    "ask Greta for the key to the archive",
    "meeting moved to the small room",
    "error: sensor four gave no reading",
    "warning: battery below twenty percent",
    "total of nine boxes, two of them open",
    "deadline for the proposal is Friday",
    "water the ferns and turn off the lamp",
    "invoice 88 was paid in full",
    "bring the ladder back to the garage",
    "draft of chapter two is ready for review",
    "order more thread, needles and chalk",
    "error: could not reach the second server",
    "the budget review needs one more signature",
)
ROWS = (
    "item,quantity",
    "bolts,140",
    "hinges,36",
    "lamps,12",
    "candles,75",
    "ropes,8",
    "tiles,420",
    "brushes,19",
)
PATTERNS = ("the", "error", "budget", "a", "is", "i")
"""Each occurs in some generated files."""

SENTENCES = (
    "The delivery is confirmed for Tuesday.",
    "Please send me the final numbers.",
    "We are out of stamps.",
    "The rehearsal starts at six.",
    "All samples passed the test.",
    "I will be ten minutes late.",
    "The garden gate is fixed.",
    "Lunch is on me today.",
)
MESSAGES = (
    "Did the plumber come by this morning?",
    "The slides are ready for you to check.",
    "Can you cover my shift on Sunday?",
    "Thanks for watering the plants.",
    "The meeting room is booked until noon.",
    "I left the parcel with your neighbor.",
    "Our train leaves from platform nine.",
    "The invoice is still missing a number.",
)
KEYWORDS = ("the", "meeting", "parcel", "you", "shift", "invoice")
TWEETS = (
    "First frost on the allotment this morning",
    "Finally finished restoring the old rowing boat",
    "Looking for tips on sourdough in a cold kitchen",
    "The night train was worth every hour",
    "Our choir sings in the market hall on Saturday",
    "New bike lane opened by the river today",
    "Half a marathon done, legs still attached",
    "Learning to solder, one burnt finger at a time",
)
NEW_TWEETS = (
    "Sunrise over the harbor was unreal today",
    "Trying out a new lentil soup recipe tonight",
    "Just planted forty tulip bulbs",
    "The workshop is open again from Monday",
    "My first clay bowl survived the kiln",
    "Rain all week, so it is reading time",
)
TAGS = ("#garden", "#travel", "#slowfood", "#makers", "#running", "#music")
COMMENTS = (
    "What a lovely picture!",
    "Count me in.",
    "How long did it take you?",
    "This made my day.",
    "Where was that?",
)

TICKETS = (
    ("Projector flickers", "The projector in room 2 flickers after an hour."),
    ("Badge not accepted", "My badge is refused at the north entrance."),
    ("Slow file server", "Opening a shared folder takes a minute."),
    ("Wrong name on payslip", "The payslip shows my old family name."),
    ("Coffee machine leaks", "Water drips from under the machine."),
    ("VPN drops", "The connection drops whenever I join a call."),
    ("Missing license", "The drawing program asks for a license again."),
    ("Broken chair", "One wheel of my chair has come off."),
)
NEW_TICKETS = (
    ("Monitor stays dark", "The left monitor has no picture since this morning."),
    ("Printer out of toner", "The printer on floor three prints blank pages."),
    ("Cannot reset password", "The reset link leads to an empty page."),
    ("Heating too loud", "The radiator by the window rattles all day."),
)
RESOLUTIONS = (
    "Replaced the cable and tested it for an hour.",
    "Updated the driver and restarted the machine.",
    "The account was unlocked by the service desk.",
    "A spare part was ordered and fitted.",
)

COMPANIES = {
    "AAPL": "Apple",
    "GOOG": "Google",
    "TSLA": "Tesla",
    "MSFT": "Microsoft",
    "NVDA": "Nvidia",
    "ZETA": "Zeta Corp",
    "ALPH": "Alpha Tech",
    "OMEG": "Omega Industries",
    "QUAS": "Quasar Ltd.",
    "NEPT": "Neptune Systems",
    "SYNX": "Synex Solutions",
    "AMZN": "Amazon",
    "GORI": "Gorilla",
}
"""Symbols and company names that the trading system can look up."""

CITIES = {
    "SFO": "San Francisco",
    "LAX": "Los Angeles",
    "JFK": "New York",
    "ORD": "Chicago",
    "BOS": "Boston",
    "RMS": "Rivermist",
    "SBK": "Stonebrook",
    "MPC": "Maplecrest",
    "SVP": "Silverpine",
    "SHD": "Shadowridge",
    "SSV": "Sunset Valley",
    "OKD": "Oakendale",
    "WLB": "Willowbend",
    "CRH": "Crescent Hollow",
    "ATV": "Autumnville",
    "PHV": "Pinehaven",
    "GFD": "Greenfield",
}
"""Airports and their cities."""

_LATER = ("RMS", "SBK", "MPC", "SVP", "SHD", "SSV", "OKD", "WLB", "CRH", "ATV", "PHV", "GFD")
ROUTES = {
    "SFO": ("LAX", "JFK", "ORD", "BOS", *_LATER),
    "LAX": ("SFO", "JFK", "ORD", "BOS", *_LATER),
    "JFK": ("LAX", "ORD", "BOS", *_LATER),
    "ORD": ("LAX", "BOS", *_LATER),
    "BOS": _LATER,
    "RMS": ("JFK", "LAX", "BOS", *_LATER[1:]),
    "SBK": _LATER[2:],
    "MPC": _LATER[3:],
    "SVP": _LATER[4:],
    "SHD": _LATER[5:],
    "SSV": _LATER[6:],
    "CRH": ("ATV", "PHV", "GFD", "SFO", "RMS", "JFK"),
}
"""Airports that the travel system can price flights between."""

DRIVES = (
    ("Rivermist", "83214", "Stonebrook", "74532"),
    ("Maplecrest", "56108", "Silverpine", "62947"),
    ("Shadowridge", "71354", "Sunset Valley", "83462"),
    ("Oakendale", "47329", "Willowbend", "52013"),
    ("Crescent Hollow", "69238", "Autumnville", "51479"),
    ("San Francisco", "94016", "Rivermist", "83214"),
    ("Silverpine", "62947", "Oakendale", "47329"),
    ("San Francisco", "94016", "Silverpine", "62947"),
    ("San Francisco", "94016", "Stonebrook", "74532"),
)
"""Pairs of cities, with zip codes, whose distance the car knows."""

ADDRESSES = (
    "12 Lantern Row, Stonebrook, CO",
    "880 Orchard Lane, Maplecrest, OR",
    "5 Quayside Walk, San Francisco, CA",
    "231 Juniper Court, Oakendale, WA",
    "47 Mill Bridge, Silverpine, ID",
    "1900 Copper Street, Autumnville, VT",
)
INSURANCES = ("basic", "comprehensive", "medical", "baggage", "cancellation")
SUPPORT = (
    "I need a wheelchair at the gate.",
    "Please add a vegetarian meal.",
    "My family name is misspelled on the ticket.",
    "Can I bring a folding bike?",
)
CONVERSIONS = (
    ("km", "miles"),
    ("miles", "km"),
    ("kg", "lb"),
    ("lb", "kg"),
    ("m", "ft"),
    ("ft", "m"),
    ("cm", "in"),
    ("in", "cm"),
    ("m", "yd"),
    ("yd", "m"),
    ("celsius", "fahrenheit"),
    ("fahrenheit", "celsius"),
)
METRIC = ("km", "m", "cm", "mm", "um", "nm")
CURRENCIES = ("RMB", "EUR", "JPY", "GBP", "CAD", "AUD", "INR", "RUB", "BRL", "MXN")
"""Those that have a rate to and from USD."""
