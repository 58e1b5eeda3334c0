"""Argument values that a user of a start state knows, by ``tool.parameter`` or ``parameter``.

They are read from the loaded objects (so official and generated states serve alike) and, for what a
user makes up (texts, amounts, dates, new names), drawn from `content` by a generator seeded with
the state. How a request words them is in phrases/*.toml: the value stands in a slot as it is here
(a date as 2026-05-01). Values that only make sense together (both ends of a route, both units of a
conversion) are drawn together, one choice a state, so that independent choices by an explorer fit.
What the environment has yet to generate (a token before logging in, the id of an order to come) is
not here.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

from .content import CONTENT
from .starts import day, month

Values = dict[str, list[Any]]

_UPDATES = [json.loads(update) for update in CONTENT.ticket_updates]
_DOORS = [json.loads(doors) for doors in CONTENT.door_sets]


def values(classes: list[str], state: dict[str, dict], instances: dict[str, Any]) -> Values:
    """Required parameter of the start's classes → values, unless nothing of its kind exists.

    Raises ValueError with the class whose state holds what its functions could not work on.
    """
    draw = random.Random(json.dumps([classes, state], sort_keys=True, default=str))
    known: Values = {}
    for class_ in classes:
        try:
            known |= _KNOWN[class_](draw, instances[class_])
        except Exception as error:  # boundary: a bad configuration is the request's fault
            raise ValueError(f"{class_} cannot be read: {error}") from error
    return {name: options for name, options in known.items() if options}


def _once(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))


def _thrice(draw: random.Random, low: int, high: int, step: int) -> list[int]:
    return [draw.randrange(low, high, step) for _ in range(3)]


def _files(draw: random.Random, system: Any) -> Values:
    top = system.root.contents
    folders = [name for name, item in top.items() if hasattr(item, "contents")]
    files = [name for name in top if name not in folders and not name.startswith(".")]
    inner = [item for name in folders for item in top[name].contents.items()]
    deep_files = [name for name, item in inner if not hasattr(item, "contents")]
    deep_folders = [name for name, item in inner if hasattr(item, "contents")]
    all_files = files * 2 + deep_files  # an episode starts at the top
    pairs = sorted(name for name in files if "_v" in name)
    new_files, new_folders = draw.sample(CONTENT.new_files, 3), draw.sample(CONTENT.new_folders, 3)
    readers = ("cat", "sort", "tail", "wc", "grep", "rm", "echo")
    stems = [name.partition(".")[0] for name in all_files]
    return {f"{tool}.file_name": all_files for tool in readers} | {
        "cd.folder": folders + deep_folders + [".."],
        "cp.source": all_files,
        "cp.destination": folders + new_files,
        "mv.source": all_files,
        "mv.destination": folders + new_files,
        "diff.file_name1": pairs[:1] or all_files,
        "diff.file_name2": pairs[1:] or all_files,
        "echo.content": draw.sample(CONTENT.sentences, 4),
        "find.path": [".", *folders],
        "find.name": draw.sample(["txt", "md", "csv", "_v", *stems], 4),
        "grep.pattern": draw.sample(CONTENT.patterns, 3),
        "mkdir.dir_name": new_folders,
        "rmdir.dir_name": [name for name in folders if not top[name].contents] + new_folders,
        "tail.lines": [1, 2, 3],
        "touch.file_name": new_files,
        "wc.mode": ["l", "w", "c"],
    }


def _math(draw: random.Random, _: Any) -> Values:
    numbers: list[Any] = [draw.randint(2, 90), draw.randint(100, 999)]
    numbers += [round(draw.uniform(1, 50), 2), round(draw.uniform(50, 400), 1)]
    rows = [[draw.randint(1, 99) for _ in range(size)] for size in (3, 4, 5)]
    imperial = draw.choice(CONTENT.conversions)
    metric = draw.sample(CONTENT.metric_units, 2)
    return {
        "number": numbers,
        "a": numbers[::2],
        "b": numbers[1::2],
        "numbers": rows,
        "value": numbers,
        "logarithm.base": [2, 10, 3],
        "precision": [5, 8, 10],
        "power.base": [2, 3, 5, 7],
        "power.exponent": [2, 3, 4, 5],
        "percentage.part": [numbers[0], draw.randint(5, 80)],
        "percentage.whole": [draw.randint(100, 400), draw.randint(400, 900)],
        "round_number.number": [round(draw.uniform(1, 100), 4), round(draw.uniform(100, 900), 3)],
        "round_number.decimal_places": [0, 1, 2],
        "imperial_si_conversion.unit_in": [imperial[0]],
        "imperial_si_conversion.unit_out": [imperial[1]],
        "si_unit_conversion.unit_in": [metric[0]],
        "si_unit_conversion.unit_out": [metric[1]],
    }


def _messages(draw: random.Random, app: Any) -> Values:
    people, ids = list(app.user_map), list(app.user_map.values())
    strangers = [name for name in CONTENT.first_names if name not in people]
    receivers = [next(iter(item)) for item in app.inbox if isinstance(item, dict)]
    return {
        "get_user_id.user": people,
        "message_login.user_id": ids,
        "send_message.receiver_id": ids,
        "send_message.message": draw.sample(CONTENT.sentences, 4),
        "delete_message.receiver_id": _once(receivers),
        "add_contact.user_name": draw.sample(strangers, 3),
        "search_messages.keyword": draw.sample(CONTENT.keywords, 4),
    }


def _twitter(draw: random.Random, app: Any) -> Values:
    ids = list(app.tweets)
    authors = _once(tweet["username"] for tweet in app.tweets.values()) or [app.username]
    known = {app.username, *app.following_list}
    chosen = draw.sample([name for name in CONTENT.handles if name not in known], 3)
    return {
        "authenticate_twitter.username": [app.username],
        "authenticate_twitter.password": [app.password],
        "tweet_id": ids,
        "comment.comment_content": draw.sample(CONTENT.comments, 3),
        "follow_user.username_to_follow": chosen,
        "unfollow_user.username_to_unfollow": list(app.following_list),
        "get_user_stats.username": authors,
        "get_user_tweets.username": authors,
        "mention.mentioned_usernames": [[f"@{chosen[0]}"], [f"@{chosen[1]}", f"@{chosen[2]}"]],
        "post_tweet.content": draw.sample(CONTENT.new_tweets, 4),
        "post_tweet.tags": [[tag] for tag in CONTENT.tags[:2]] + [draw.sample(CONTENT.tags, 2)],
        "post_tweet.mentions": [[f"@{chosen[0]}"], [f"@{chosen[1]}"]],
        "search_tweets.keyword": ["the", "a", *CONTENT.tags[:2]],
    }


def _tickets(draw: random.Random, app: Any) -> Values:
    ids = [ticket["id"] for ticket in app.ticket_queue if "id" in ticket]
    owners = [ticket["created_by"] for ticket in app.ticket_queue if ticket.get("created_by")]
    titles, descriptions = zip(*draw.sample(CONTENT.new_tickets, 3), strict=True)
    return {
        "ticket_id": ids,
        "create_ticket.title": list(titles),
        "create_ticket.description": list(descriptions),
        "create_ticket.priority": [2, 3, 4, 5],
        "edit_ticket.updates": draw.sample(_UPDATES, 4),
        "get_user_tickets.status": ["Open", "Closed", "Resolved"],
        "resolve_ticket.resolution": draw.sample(CONTENT.resolutions, 2),
        "ticket_login.username": owners[:1] or draw.sample(CONTENT.handles, 1),
        "ticket_login.password": draw.sample(CONTENT.passwords, 1),
    }


def _trading(draw: random.Random, app: Any) -> Values:
    if not app.stocks:
        raise ValueError("stocks must not be empty")
    symbols = list(app.stocks)
    several = [sorted(draw.sample(symbols, min(size, len(symbols)))) for size in (2, 3, 4)]
    prices = sorted(stock["price"] for stock in app.stocks.values())
    orders = {id_: order for id_, order in app.orders.items() if isinstance(order, dict)}
    open_orders = [id_ for id_, order in orders.items() if order.get("status") != "Completed"]
    companies = [CONTENT.companies[symbol] for symbol in symbols if symbol in CONTENT.companies]
    return {
        "symbol": symbols,
        "add_to_watchlist.stock": [symbol for symbol in symbols if symbol not in app.watch_list],
        "remove_stock_from_watchlist.symbol": list(app.watch_list),
        "cancel_order.order_id": open_orders,
        "get_order_details.order_id": list(orders),
        "filter_stocks_by_price.stocks": several,
        "filter_stocks_by_price.min_price": [prices[0] // 1, 50, 100],
        "filter_stocks_by_price.max_price": [prices[-1] // 1 + 1, 400, 600],
        "fund_account.amount": _thrice(draw, 100, 3_000, 50),
        "withdraw_funds.amount": _thrice(draw, 50, 900, 25),
        "get_available_stocks.sector": ["Technology", "Automobile"],
        "get_symbol_by_name.name": companies,
        "get_transaction_history.start_date": ["2024-01-01", "2024-03-01"],
        "get_transaction_history.end_date": ["2024-08-31", "2024-12-31"],
        "notify_price_change.stocks": several,
        "notify_price_change.threshold": [0.5, 1, 2],
        "place_order.order_type": ["Buy", "Sell"],
        "place_order.price": [round(price * draw.uniform(0.9, 1.1)) for price in prices[:4]],
        "place_order.amount": [1, 2, 3, 5, 8],
        "trading_login.username": draw.sample(CONTENT.handles, 1),
        "trading_login.password": draw.sample(CONTENT.passwords, 1),
    }


def _travel(draw: random.Random, app: Any) -> Values:
    departure = draw.choice(sorted(CONTENT.routes))
    arrivals = draw.sample(CONTENT.routes[departure], min(4, len(CONTENT.routes[departure])))
    first_name = app.user_first_name or draw.choice(CONTENT.first_names)
    last_name = app.user_last_name or draw.choice(CONTENT.last_names)
    currencies = [["USD"], draw.sample(CONTENT.currencies, 3)]
    draw.shuffle(currencies)
    paid = [id_ for id_, booking in app.booking_record.items() if "card_id" in booking]
    return {
        "access_token": [app.access_token] if app.access_token else [],
        "card_id": list(app.credit_card_list),
        "booking_id": list(app.booking_record),
        "cancel_booking.booking_id": paid,
        "travel_from": [departure],
        "travel_to": arrivals,
        "travel_date": [f"2026-{month(draw, 3)}-{day(draw)}" for _ in range(3)],
        "travel_class": ["economy", "business", "first"],
        "get_nearest_airport_by_city.location": [CONTENT.cities[c] for c in (departure, *arrivals)],
        "compute_exchange_rate.base_currency": currencies[0],
        "compute_exchange_rate.target_currency": currencies[1],
        "compute_exchange_rate.value": _thrice(draw, 50, 5_000, 10),
        "contact_customer_support.message": draw.sample(CONTENT.support_requests, 2),
        "purchase_insurance.insurance_type": draw.sample(CONTENT.insurances, 3),
        "purchase_insurance.insurance_cost": _thrice(draw, 20, 300, 5),
        "set_budget_limit.budget_limit": _thrice(draw, 800, 6_000, 100),
        "get_budget_fiscal_year.lastModifiedAfter": ["2025-03-01T00:00:00", "2025-10-15T12:00:00"],
        "get_budget_fiscal_year.includeRemoved": ["true", "false"],
        **_identity(draw, first_name, last_name),
    }


def _identity(draw: random.Random, first_name: str, last_name: str) -> Values:
    """A traveler's own data, and those of a new card."""
    digits = [draw.randrange(10**7, 10**8) for _ in range(4)]
    return {
        "authenticate_travel.client_id": [f"client{digits[0]}"],
        "authenticate_travel.client_secret": [f"secret{digits[1]}"],
        "authenticate_travel.refresh_token": [f"refresh{digits[2]}"],
        "authenticate_travel.grant_type": ["read_write", "read", "write"],
        "user_first_name": [first_name],
        "user_last_name": [last_name],
        "first_name": [first_name],
        "last_name": [last_name],
        "date_of_birth": [f"19{draw.randint(60, 99)}-{month(draw)}-{day(draw)}"],
        "passport_number": [f"US{digits[3]}"],
        "register_credit_card.card_number": [f"5{digits[0]}{digits[1]}"[:16]],
        "register_credit_card.expiration_date": [f"{month(draw)}/{draw.randint(2028, 2032)}"],
        "register_credit_card.cardholder_name": [f"{first_name} {last_name}"],
        "register_credit_card.card_verification_number": [draw.randint(100, 999)],
    }


def _vehicle(draw: random.Random, car: Any) -> Values:
    city, code, other, other_code = draw.choice(CONTENT.drives)
    room = max(1, int(50 - car.fuelLevel))
    unlocked = [door for door in _DOORS[-1] if car.doorStatus.get(door) == "unlocked"]
    doors = [_DOORS[-1], draw.choice(_DOORS[:4]), draw.choice(_DOORS[4:-1])]
    doors += [unlocked] if unlocked in _DOORS[:-1] else []
    return {
        "adjustClimateControl.temperature": [draw.randint(17, 26) for _ in range(3)],
        "adjustClimateControl.fanSpeed": [30, 60, 75],
        "display_log.messages": [draw.sample(CONTENT.sentences, size) for size in (1, 2)],
        "estimate_distance.cityA": [code],
        "estimate_distance.cityB": [other_code],
        "get_zipcode_based_on_city.city": [city, other],
        "estimate_drive_feasibility_by_mileage.distance": _thrice(draw, 40, 900, 10),
        "fillFuelTank.fuelAmount": [draw.randint(1, room) for _ in range(3)],
        "gallon_to_liter.gallon": [draw.randint(2, 40) for _ in range(2)],
        "liter_to_gallon.liter": [draw.randint(4, 80) for _ in range(2)],
        "lockDoors.door": doors,
        "lockDoors.unlock": [False, False, True],
        "pressBrakePedal.pedalPosition": [1, 1, 0.5],
        "setCruiseControl.speed": _thrice(draw, 30, 85, 5),
        "setCruiseControl.activate": [True, True, False],
        "setCruiseControl.distanceToNextVehicle": _thrice(draw, 40, 160, 10),
        "set_navigation.destination": draw.sample(CONTENT.addresses, 3),
        "startEngine.ignitionMode": ["START"],
    }


_KNOWN = {
    "GorillaFileSystem": _files,
    "MathAPI": _math,
    "MessageAPI": _messages,
    "TwitterAPI": _twitter,
    "TicketAPI": _tickets,
    "TradingBot": _trading,
    "TravelAPI": _travel,
    "VehicleControlAPI": _vehicle,
}
