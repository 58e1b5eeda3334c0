"""How people ask for TradingBot, TravelAPI and VehicleControlAPI.

The two reads of a car that draw a number anew at each call are no goals, and nothing refers to them: any other read before would
make another number of the reference's.

An id is asked for as "… whose ID is {x}", so that a number and a phrase ("the one of the new booking …") both fit. Texts are
quoted by `words`, for the same reason.
"""

from __future__ import annotations

from itertools import combinations

from ..content import ADDRESSES, SENTENCES, SUPPORT
from .phrases import ask, quoted, read, said

TRADING = {
    "add_to_watchlist": ask("add {stock} to my watchlist", "put {stock} on my stock watchlist"),
    "cancel_order": ask(
        "cancel the stock order whose ID is {order_id}",
        "call off the stock order whose ID is {order_id}",
    ),
    "filter_stocks_by_price": read(
        "tell me which of the stocks {stocks} cost between {min_price} and {max_price}",
        "from {stocks}, keep those with a price from {min_price} to {max_price}",
        literal=("min_price", "max_price"),
    ),
    "fund_account": ask(
        "deposit this amount into my trading account, in dollars: {amount}",
        "fund my trading account with this many dollars: {amount}",
        refer={"new_balance": "the new balance of my trading account"},
    ),
    "get_account_info": read(
        "show me my trading account information",
        "tell me the details of my trading account, balance included",
        refer={
            "balance": "the balance of my trading account",
            "account_id": "the number of my trading account",
        },
    ),
    "get_available_stocks": read(
        "list the stocks of the {sector} sector",
        "tell me which stocks are available in the {sector} sector",
        literal=("sector",),
        refer={"stock_list": "the stocks of the {sector} sector"},
    ),
    "get_current_time": read(
        "tell me the current time of the market", "tell me what time the trading system shows"
    ),
    "get_order_details": read(
        "show me the details of the stock order whose ID is {order_id}",
        "look up the stock order whose ID is {order_id}",
        refer={
            "symbol": "the stock of the order whose ID is {order_id}",
            "price": "the price of the order whose ID is {order_id}",
        },
    ),
    "get_order_history": read(
        "list my stock orders",
        "show me my order history",
        refer={"history": "the IDs in my order history"},
    ),
    "get_stock_info": read(
        "show me the stock information of {symbol}",
        "tell me the price and the other figures of {symbol}",
        refer={
            "price": "the current price of {symbol}",
            "volume": "the current volume of {symbol}",
        },
    ),
    "get_symbol_by_name": read(
        "tell me the stock symbol of the company {name}",
        "find out under which symbol the company {name} is traded",
        literal=("name",),
        refer={"symbol": "{name} (look up its symbol)"},
    ),
    "get_transaction_history": read(
        "show me the transactions of my trading account",
        "list my deposits and withdrawals at the trading system",
        optional={"start_date": " from {start_date} on", "end_date": " up to {end_date}"},
        literal=("start_date", "end_date"),
    ),
    "get_watchlist": read(
        "show me my stock watchlist",
        "tell me which stocks are on my watchlist",
        refer={"watchlist": "the stocks on my watchlist"},
    ),
    "notify_price_change": read(
        "check whether any of {stocks} has changed its price by {threshold} percent or more",
        "tell me which of {stocks} moved by at least {threshold} percent",
        literal=("threshold",),
    ),
    "place_order": ask(
        'place an order of the type "{order_type}" for {amount} shares of {symbol} at {price}',
        'enter a "{order_type}" order: {amount} shares of {symbol} at {price}',
        literal=("order_type", "amount"),
        refer={"order_id": "the one of the new order of {amount} shares of {symbol}"},
    ),
    "remove_stock_from_watchlist": ask(
        "remove {symbol} from my watchlist", "take {symbol} off my stock watchlist"
    ),
    "trading_get_login_status": ask(
        "check whether I am logged in to the trading system", read_only=True
    ),
    "trading_login": ask(
        "log me in to the trading system as {username} with the password {password}",
        "sign in to the trading system; my username is {username} and my password is {password}",
        literal=("username", "password"),
    ),
    "trading_logout": ask("log me out of the trading system", "sign me out of the trading system"),
    "withdraw_funds": ask(
        "withdraw this amount from my trading account, in dollars: {amount}",
        "take this many dollars out of my trading account: {amount}",
        refer={"new_balance": "the new balance of my trading account"},
    ),
}

TRAVEL = {
    "authenticate_travel": ask(
        "log me in to the travel system with the client ID {client_id}, the client secret {client_secret}, the refresh "
        "token {refresh_token} and the grant type {grant_type}, for {user_first_name} {user_last_name}",
        "get a travel access token: client ID {client_id}, client secret {client_secret}, refresh token {refresh_token}, "
        "grant type {grant_type}, first name {user_first_name}, last name {user_last_name}",
        refer={"access_token": "the one from logging in"},
        literal=(
            "client_id",
            "client_secret",
            "refresh_token",
            "grant_type",
            "user_first_name",
            "user_last_name",
        ),
    ),
    "book_flight": ask(
        "book a flight in {travel_class} class from {travel_from} to {travel_to} on {travel_date}, paid with the card whose ID "
        "is {card_id}; my access token is {access_token}",
        "my access token is {access_token}; book me from {travel_from} to {travel_to} on {travel_date} in {travel_class} "
        "class and charge the card whose ID is {card_id}",
        refer={"booking_id": "the one of the new booking from {travel_from} to {travel_to}"},
        lookup_only=("access_token",),
    ),
    "cancel_booking": ask(
        "cancel the booking whose ID is {booking_id}; my access token is {access_token}",
        "my access token is {access_token}; call off the booking whose ID is {booking_id}",
        lookup_only=("access_token",),
    ),
    "compute_exchange_rate": read(
        "convert {value} {base_currency} to {target_currency}",
        "tell me what {value} {base_currency} is worth in {target_currency}",
        literal=("value",),
        refer={"exchanged_value": "the value of {value} {base_currency} in {target_currency}"},
    ),
    "contact_customer_support": read(
        "contact the travel support about the booking whose ID is {booking_id}, with the message {message}",
        "write {message} to the travel support, about the booking whose ID is {booking_id}",
        literal=("message",),
        words={"message": quoted(SUPPORT)},
    ),
    "get_all_credit_cards": read(
        "list all credit cards registered in the travel system",
        "show me my credit cards in the travel system",
    ),
    "get_booking_history": read(
        "show me all my bookings; my access token is {access_token}",
        "my access token is {access_token}; list my booking history",
        lookup_only=("access_token",),
    ),
    "get_budget_fiscal_year": read(
        "tell me the fiscal year of the travel budget",
        "look up the budget's fiscal year in the travel system",
        optional={
            "lastModifiedAfter": ", only if changed after {lastModifiedAfter}",
            "includeRemoved": ', with the setting for including removed ones at "{includeRemoved}"',
        },
        literal=("lastModifiedAfter", "includeRemoved"),
        refer={"budget_fiscal_year": "the fiscal year of the travel budget"},
    ),
    "get_credit_card_balance": read(
        "tell me the balance of the credit card whose ID is {card_id}; my access token is {access_token}",
        "my access token is {access_token}; check the balance of the card whose ID is {card_id}",
        refer={"card_balance": "the balance of the card whose ID is {card_id}"},
        lookup_only=("access_token",),
    ),
    "get_flight_cost": read(
        "tell me what a flight in {travel_class} class from {travel_from} to {travel_to} on {travel_date} costs",
        "find out the price of flying {travel_class} class from {travel_from} to {travel_to} on {travel_date}",
        refer={"travel_cost_list": "the prices of the flight from {travel_from} to {travel_to}"},
    ),
    "get_nearest_airport_by_city": read(
        "tell me which airport is nearest to {location}",
        "find the airport closest to {location}",
        refer={"nearest_airport": "the airport nearest to {location}"},
    ),
    "list_all_airports": read(
        "list all airports that the travel system knows", "show me every available airport"
    ),
    "purchase_insurance": ask(
        "buy {insurance_type} insurance for {insurance_cost} dollars for the booking whose ID is {booking_id}, paid with the "
        "card whose ID is {card_id}; my access token is {access_token}",
        "my access token is {access_token}; insure the booking whose ID is {booking_id}: type {insurance_type}, cost "
        "{insurance_cost} dollars, on the card whose ID is {card_id}",
        refer={"insurance_id": "the one of the new {insurance_type} insurance"},
        lookup_only=("access_token",),
        literal=("insurance_type",),
    ),
    "register_credit_card": ask(
        "register the credit card {card_number}, expiring {expiration_date}, cardholder {cardholder_name}, verification "
        "number {card_verification_number}; my access token is {access_token}",
        "my access token is {access_token}; add a credit card: number {card_number}, valid until {expiration_date}, in the "
        "name of {cardholder_name}, verification number {card_verification_number}",
        refer={"card_id": "the one of the newly registered card"},
        lookup_only=("access_token",),
        literal=("card_number", "expiration_date", "cardholder_name", "card_verification_number"),
    ),
    "retrieve_invoice": read(
        "my access token is {access_token}; fetch the invoice",
        "my access token is {access_token}; get me the invoice",
        optional={
            "booking_id": " for the booking whose ID is {booking_id}",
            "insurance_id": " with the insurance whose ID is {insurance_id}",
        },
        refer={
            "travel_cost": "the cost on the invoice of the booking whose ID is {booking_id}",
            "travel_date": "the travel date of the booking whose ID is {booking_id}",
            "travel_from": "the departure airport of the booking whose ID is {booking_id}",
            "travel_to": "the destination airport of the booking whose ID is {booking_id}",
        },
        lookup_only=("access_token", "insurance_id"),
    ),
    "set_budget_limit": ask(
        "set my travel budget limit, in dollars, to {budget_limit}; my access token is {access_token}",
        "my access token is {access_token}; set my travel budget limit to this many dollars: {budget_limit}",
        refer={"budget_limit": "the travel budget limit"},
        lookup_only=("access_token",),
    ),
    "travel_get_login_status": ask(
        "check whether I am logged in to the travel system", read_only=True
    ),
    "verify_traveler_information": read(
        "verify the traveler {first_name} {last_name}, born on {date_of_birth}, passport number {passport_number}",
        "check the traveler's details: first name {first_name}, last name {last_name}, date of birth {date_of_birth}, "
        "passport {passport_number}",
        literal=("first_name", "last_name", "date_of_birth", "passport_number"),
    ),
}

_SIDES = {
    "driver": "driver's",
    "passenger": "passenger's",
    "rear_left": "rear left",
    "rear_right": "rear right",
}
DOORS = [list(some) for size in (1, 2, 3, 4) for some in combinations(_SIDES, size)]
"""Sets of doors, each in the order in which people name them."""


def _doors(some: list[str]) -> str:
    if len(some) == len(_SIDES):
        return "all four doors (driver, passenger, rear left, rear right)"
    names = [f"the {_SIDES[door]} door" for door in some]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


_OPTIONS = [
    ("fuel", "fuel level"),
    ("battery", "battery"),
    ("doors", "doors"),
    ("climate", "climate control"),
    ("headlights", "headlights"),
    ("parkingBrake", "parking brake"),
    ("brakePedal", "brake pedal"),
    ("engine", "engine"),
]

VEHICLE = {
    "activateParkingBrake": ask("{mode} the parking brake", "{mode} the parking brake of the car"),
    "adjustClimateControl": ask(
        "set the car's climate control to this temperature: {temperature}",
        "give the car's climate control this temperature: {temperature}",
        optional={
            "unit": " degrees {unit}",
            "fanSpeed": ", fan speed {fanSpeed}",
            "mode": ", in {mode} mode",
        },
        absent={"unit": " degrees celsius", "fanSpeed": ", fan speed 50", "mode": ", in auto mode"},
        literal=("temperature", "fanSpeed", "mode"),
    ),
    "check_tire_pressure": read(
        "check the tire pressure", "tell me the pressure of the car's tires"
    ),
    "displayCarStatus": read(
        "tell me how it stands with the car's {option}",
        "display the status of the car's {option}",
        refer={
            "fuelLevel": "the car's current fuel level",
            "batteryVoltage": "the car's battery voltage",
        },
        words={"option": said(_OPTIONS)},
    ),
    "display_log": read(
        "display the log messages {messages}",
        "put these messages on the car's log display: {messages}",
        literal=("messages",),
        words={"messages": quoted(SENTENCES)},
    ),
    "estimate_distance": read(
        "estimate the distance from {cityA} to {cityB}",
        "tell me how far it is from {cityA} to {cityB}",
        refer={"distance": "the distance from {cityA} to {cityB}"},
    ),
    "estimate_drive_feasibility_by_mileage": read(
        "check whether the fuel is enough for a drive this long, in miles: {distance}",
        "tell me if the car can go this far on its fuel, in miles: {distance}",
    ),
    "fillFuelTank": ask(
        "add fuel to the tank, in gallons: {fuelAmount}",
        "fill up the car; the amount to add, in gallons, is {fuelAmount}",
        refer={"fuelLevel": "the fuel level after filling up"},
    ),
    "find_nearest_tire_shop": read(
        "find the nearest tire shop",
        "tell me where the closest tire shop is",
        refer={"shopLocation": "the nearest tire shop"},
    ),
    "gallon_to_liter": read(
        "convert {gallon} from gallons to liters",
        "tell me how many liters this many gallons are: {gallon}",
        refer={"liter": "the result of turning {gallon} gallons into liters"},
    ),
    "get_current_speed": ask(
        "tell me the car's current speed", "check how fast the car is going", read_only=True
    ),
    "get_outside_temperature_from_google": ask(
        "look up the outside temperature on Google",
        "ask Google for the temperature outside",
        read_only=True,
    ),
    "get_outside_temperature_from_weather_com": read(
        "look up the outside temperature on weather.com"
    ),
    "get_zipcode_based_on_city": read(
        "tell me the zip code of {city}",
        "find out which zip code {city} has",
        refer={"zipcode": "{city} (look up its zip code)"},
    ),
    "liter_to_gallon": read(
        "convert {liter} from liters to gallons",
        "tell me how many gallons this many liters are: {liter}",
        refer={"gallon": "the result of turning {liter} liters into gallons"},
    ),
    "lockDoors": ask(
        "{unlock} {door} of the car",
        "in the car, {unlock} {door}",
        words={
            "unlock": {"true": "unlock", "false": "lock"},
            "door": said([(some, _doors(some)) for some in DOORS]),
        },
    ),
    "pressBrakePedal": ask(
        "press the brake pedal to position {pedalPosition} (1 is all the way down)",
        "put the brake pedal at {pedalPosition}, where 1 means fully pressed",
        literal=("pedalPosition",),
    ),
    "releaseBrakePedal": ask("release the brake pedal", "let go of the brake pedal"),
    "setCruiseControl": ask(
        "{activate} the cruise control with the speed at {speed} and a distance of {distanceToNextVehicle} meters to the next "
        "vehicle",
        "{activate} cruise control: speed {speed}, distance to the next vehicle {distanceToNextVehicle} meters",
        literal=("speed", "distanceToNextVehicle"),
        words={"activate": {"true": "turn on", "false": "turn off"}},
    ),
    "setHeadlights": ask(
        'set the headlights to "{mode}"', 'put the headlights on the setting "{mode}"'
    ),
    "set_navigation": ask(
        "set the navigation to {destination}",
        "navigate to {destination}",
        words={"destination": quoted(ADDRESSES)},
    ),
    "startEngine": ask(
        'turn the ignition to "{ignitionMode}"', 'use the ignition in the mode "{ignitionMode}"'
    ),
}
