"""Generated start states: a pure function of a seed and the wanted classes.

Classes that occur together in the official tasks are put together, one main class and often a
second. The 200 official start states are test data: none is used, and no value comes from a
reference solution. Where the official configurations make legal calls raise (rows without an id or
an owner, counters that collide, lists in place of texts, bookings without a card), these are
complete. Official quirks that shape the configuration: JSON keys are texts, so `comments` (never
turned back into numbers) stay empty; `generated_ids` must be a set, so it is left out; the car's
engine is `engineState`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .content import CONTENT


def generate(seed: str, apps: list[str] | None) -> dict:
    """A start configuration {"classes", "state"} that contains the wanted classes."""
    wanted = sorted(set(apps or []))
    draw = random.Random(f"bfcl-start-{seed}-{','.join(wanted)}")
    fitting = [classes for classes in CONTENT.together if set(wanted) <= set(classes)]
    classes = list(draw.choice(fitting)) if fitting else wanted
    return {"classes": classes, "state": {class_: _STATES[class_](draw) for class_ in classes}}


def _files(draw: random.Random) -> dict:
    """A tree with files and folders, two versions of a file, an empty folder, a hidden file."""
    folders = draw.sample(CONTENT.folders, 4)
    stems = draw.sample(CONTENT.stems, 12)
    top: dict[str, dict] = {}
    for stem in stems[:3]:
        top |= _file(draw, stem)
    suffix = draw.choice(CONTENT.suffixes[:2])
    first = draw.sample(CONTENT.lines, draw.randint(3, 5))
    second = [line if draw.random() < 0.6 else draw.choice(CONTENT.lines) for line in first[:-1]]
    top[f"{stems[3]}_v1.{suffix}"] = _text("\n".join(first))
    top[f"{stems[3]}_v2.{suffix}"] = _text("\n".join([*second, draw.choice(CONTENT.lines)]))
    top[".settings"] = _text("theme=dark")
    rest = iter(stems[4:])
    for folder in folders[:3]:
        inside: dict[str, dict] = {}
        for _ in range(draw.randint(1, 2)):
            inside |= _file(draw, next(rest))
        if draw.random() < 0.5:
            deep = _folder(_file(draw, next(rest)) if draw.random() < 0.4 else {})
            inside[draw.choice(CONTENT.subfolders)] = deep
        top[folder] = _folder(inside)
    top[folders[3]] = _folder({})
    names = list(top)
    draw.shuffle(names)
    return {"root": {draw.choice(CONTENT.roots): _folder({name: top[name] for name in names})}}


def _file(draw: random.Random, stem: str) -> dict:
    suffix = draw.choice(CONTENT.suffixes)
    if suffix == "csv":
        lines = [CONTENT.rows[0], *draw.sample(CONTENT.rows[1:], draw.randint(3, 6))]
    else:
        lines = draw.sample(CONTENT.lines, draw.randint(2, 7))
    return {f"{stem}.{suffix}": _text("\n".join(lines))}


def _text(text: str) -> dict:
    return {"type": "file", "content": text}


def _folder(contents: dict) -> dict:
    return {"type": "directory", "contents": contents}


def _messages(draw: random.Random) -> dict:
    first = draw.choice((101, 240, 310, 455, 520, 780))  # number of the first user's id
    names = draw.sample(CONTENT.first_names, 4)
    people = {name: f"USR{first + index}" for index, name in enumerate(names)}
    ids = list(people.values())
    inbox = [{draw.choice(ids): text} for text in draw.sample(CONTENT.messages, draw.randint(3, 5))]
    return {
        "random_seed": draw.randrange(10**6),
        "user_count": first + len(ids) - 1,
        "user_map": people,
        "inbox": inbox,
        "message_count": len(inbox),
        "current_user": draw.choice(ids) if draw.random() < 0.7 else None,
    }


def _twitter(draw: random.Random) -> dict:
    me, *others = draw.sample(CONTENT.handles, 6)
    first = draw.randrange(1_100, 8_000)
    ids = range(first, first + draw.randint(4, 6))
    tweets = {
        str(id_): {
            "id": id_,
            "username": me if draw.random() < 0.5 else draw.choice(others[:2]),
            "content": text,
            "tags": sorted(draw.sample(CONTENT.tags, draw.randint(0, 2))),
            "mentions": [],
        }
        for id_, text in zip(ids, draw.sample(CONTENT.tweets, len(ids)), strict=True)
    }
    return {
        "username": me,
        "password": draw.choice(CONTENT.passwords),
        "authenticated": draw.random() < 0.65,
        "tweets": tweets,
        "comments": {},
        "retweets": {me: [ids[0]]} if draw.random() < 0.3 else {},
        "following_list": others[:3],
        "tweet_counter": ids[-1] + 1,
    }


def _tickets(draw: random.Random) -> dict:
    me, other = draw.sample(CONTENT.handles, 2)
    first = draw.randrange(2_000, 9_000)
    chosen = draw.sample(CONTENT.tickets, draw.randint(3, 5))
    queue = [
        {
            "id": first + index,
            "title": title,
            "description": description,
            "status": draw.choice(("Open", "Open", "Closed", "Resolved")) if index else "Open",
            "priority": draw.randint(1, 5),
            "created_by": me if index < 2 or draw.random() < 0.5 else other,
        }
        for index, (title, description) in enumerate(chosen)
    ]
    logged_in = me if draw.random() < 0.65 else None
    return {"ticket_queue": queue, "ticket_counter": first + len(queue), "current_user": logged_in}


def _trading(draw: random.Random) -> dict:
    symbols = sorted(draw.sample(sorted(CONTENT.companies), 8))
    stocks = {symbol: _stock(draw) for symbol in symbols}
    first = draw.randrange(20_100, 48_000)
    orders = {
        str(first + index): _order(draw, first + index, stocks, index)
        for index in range(draw.randint(3, 5))
    }
    return {
        "random_seed": draw.randrange(10**6),
        "orders": orders,
        "account_info": {
            "account_id": draw.randrange(60_000, 99_999),
            "balance": float(draw.randrange(4_000, 60_000)),
            "binding_card": draw.randrange(4 * 10**15, 5 * 10**15),
        },
        "authenticated": draw.random() < 0.75,
        "market_status": "Open" if draw.random() < 0.85 else "Closed",
        "order_counter": first + len(orders),
        "stocks": stocks,
        "watch_list": draw.sample(symbols, draw.randint(2, 3)),
        "transaction_history": [
            {
                "type": draw.choice(("deposit", "withdrawal")),
                "amount": float(draw.randrange(50, 2_000)),
                "timestamp": f"2024-{number:02}-{day(draw)} {_time(draw)}:00",
            }
            for number in sorted(draw.sample(range(1, 9), draw.randint(2, 4)))
        ],
    }


def _stock(draw: random.Random) -> dict:
    price = round(draw.uniform(18, 900), 2)
    return {
        "price": price,
        "percent_change": round(draw.uniform(-4, 4), 2),
        "volume": round(draw.uniform(0.4, 5), 3),
        "MA(5)": round(price * draw.uniform(0.98, 1.02), 2),
        "MA(20)": round(price * draw.uniform(0.95, 1.05), 2),
    }


def _order(draw: random.Random, id_: int, stocks: dict, index: int) -> dict:
    symbol = draw.choice(sorted(stocks))
    return {
        "id": id_,
        "order_type": draw.choice(("Buy", "Sell")),
        "symbol": symbol,
        "price": round(stocks[symbol]["price"] * draw.uniform(0.9, 1.1), 2),
        "amount": draw.randint(1, 30),
        "status": "Open" if index == 0 else draw.choice(("Open", "Pending", "Completed")),
    }


def _travel(draw: random.Random) -> dict:
    first_name, last_name = draw.choice(CONTENT.first_names), draw.choice(CONTENT.last_names)
    count, holder = draw.randint(1, 2), f"{first_name} {last_name}"
    cards = {_digits(draw, 12): _card(draw, holder) for _ in range(count)}
    count, ids = draw.randint(1, 2), list(cards)
    bookings = {_digits(draw, 7): _booking(draw, draw.choice(ids)) for _ in range(count)}
    logged_in = draw.random() < 0.75
    return {
        "random_seed": draw.randrange(10**6),
        "credit_card_list": cards,
        "booking_record": bookings,
        "access_token": f"tok{_digits(draw, 6)}" if logged_in else None,
        "token_type": "Bearer" if logged_in else None,
        "token_expires_in": 3600 if logged_in else None,
        "token_scope": "read_write" if logged_in else None,
        "user_first_name": first_name if logged_in else None,
        "user_last_name": last_name if logged_in else None,
        "budget_limit": float(draw.randrange(500, 2_500, 50)) if draw.random() < 0.5 else None,
    }


def _card(draw: random.Random, holder: str) -> dict:
    return {
        "card_number": f"4{_digits(draw, 15)}",
        "expiration_date": f"{month(draw)}/{draw.randint(2027, 2031)}",
        "cardholder_name": holder,
        "card_verification_number": draw.randint(100, 999),
        "balance": float(draw.randrange(8_000, 45_000)),
    }


def _booking(draw: random.Random, card_id: str) -> dict:
    departure = draw.choice(sorted(CONTENT.routes))
    return {
        "card_id": card_id,
        "travel_date": f"2026-{month(draw, 3)}-{day(draw)}",
        "travel_from": departure,
        "travel_to": draw.choice(CONTENT.routes[departure]),
        "travel_class": draw.choice(("economy", "business", "first")),
        "travel_cost": float(draw.randrange(200, 3_000, 10)),
        "transaction_id": _digits(draw, 8),
    }


def month(draw: random.Random, first: int = 1) -> str:
    """Two digits, from `first` to 12."""
    return f"{draw.randint(first, 12):02}"


def day(draw: random.Random) -> str:
    """Two digits; every month has this day."""
    return f"{draw.randint(1, 28):02}"


def _time(draw: random.Random) -> str:
    return f"{draw.randint(8, 17):02}:{draw.randint(0, 59):02}"


def _digits(draw: random.Random, count: int) -> str:
    return str(draw.randrange(10 ** (count - 1), 10**count))


def _vehicle(draw: random.Random) -> dict:
    doors = ("driver", "passenger", "rear_left", "rear_right")
    locked, pressed, engaged = (draw.random() < chance for chance in (0.35, 0.25, 0.5))
    return {
        "random_seed": draw.randrange(10**6),
        "fuelLevel": round(draw.uniform(2, 30), 1),
        "batteryVoltage": round(draw.uniform(11.6, 13.8), 1),
        "engineState": "running" if draw.random() < 0.4 else "stopped",
        "doorStatus": {
            door: "locked" if locked or draw.random() < 0.4 else "unlocked" for door in doors
        },
        "acTemperature": float(draw.randint(15, 28)),
        "fanSpeed": draw.randrange(10, 95, 5),
        "acMode": draw.choice(("auto", "cool", "heat")),
        "humidityLevel": float(draw.randint(25, 65)),
        "headLightStatus": draw.choice(("on", "off")),
        "parkingBrakeStatus": "engaged" if engaged else "released",
        "parkingBrakeForce": 500.0 if engaged else 0.0,
        "slopeAngle": 10.0 if engaged else 0.0,
        "brakePedalStatus": "pressed" if pressed else "released",
        "brakePedalForce": 1000.0 if pressed else 0.0,
        "distanceToNextVehicle": float(draw.randint(20, 180)),
        "cruiseStatus": "inactive",
        "destination": "None",
        **{f"{tire}TirePressure": round(draw.uniform(27, 36), 1) for tire in _TIRES},
    }


_TIRES = ("frontLeft", "frontRight", "rearLeft", "rearRight")


_STATES: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "GorillaFileSystem": _files,
    "MathAPI": lambda draw: {},
    "MessageAPI": _messages,
    "TwitterAPI": _twitter,
    "TicketAPI": _tickets,
    "TradingBot": _trading,
    "TravelAPI": _travel,
    "VehicleControlAPI": _vehicle,
}
