"""What the people of the self-made AppWorld root did before any task begins: every record through the apps' public APIs.

`live(apis, clock)` returns the songs in each person's library; `clock` is freezegun's, moved on before each call (starting
AppWorld's own freezer each time costs more than the call). Dates lie in the weeks before AppWorld's date; who does what with
whom goes round in a fixed order, so that everybody has something of each kind.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from . import people

BEGIN = datetime(2023, 4, 3, 9, 0)
LATER = datetime(2100, 1, 1)
"""When they log in: a token's last day counts from there."""


class Life:
    """One person's accounts: calls with the right token, each some hours after the one before."""

    def __init__(self, apis: Any, clock: Any, number: int):
        from .builder import APPS, card, password, phone_number

        self.apis, self.number, self.person, self.card = (
            apis,
            number,
            people.PEOPLE[number],
            card(number),
        )
        self.clock, self.time = clock, BEGIN + timedelta(minutes=17 * number)
        self.tokens = {}
        clock.move_to(LATER)
        for app in APPS:
            name = phone_number(number) if app == "phone" else self.person.email
            self.tokens[app] = apis[app].login(username=name, password=password(app, number))[
                "access_token"
            ]

    def do(self, app: str, api: str, **arguments: Any) -> Any:
        self.time += timedelta(hours=5)
        self.clock.move_to(self.time)
        return self.apis[app][api](access_token=self.tokens[app], **arguments)

    def other(self, step: int) -> int:
        """Somebody else; the first, second … after this person."""
        return (self.number + 1 + step % (len(people.PEOPLE) - 1)) % len(people.PEOPLE)


def live(apis: Any, clock: Any) -> list[list[dict[str, Any]]]:
    lives = [Life(apis, clock, number) for number in range(len(people.PEOPLE))]
    for life in lives:
        _contacts(life)
        _notes(life)
        _files(life)
        _todos(life)
        _shopping(life)
    for life in lives:
        _money(life)
        _letters(life)
    libraries = [_music(life) for life in lives]
    return [
        [life.do("spotify", "show_song", song_id=song) for song in own]
        for life, own in zip(lives, libraries, strict=True)
    ]


def _contacts(life: Life) -> None:
    from .builder import address, phone_number

    for step in range(len(people.PEOPLE) - 1):
        number = life.other(step)
        person, place = people.PEOPLE[number], address(number)
        life.do(
            "phone",
            "add_contact",
            first_name=person.first,
            last_name=person.last,
            phone_number=phone_number(number),
            email=person.email,
            relationships=[person.relationships[life.number % 2]],
            birthday=person.birthday,
            home_address=f"{place['street_address']}, {place['city']}, {place['state']}",
        )
        if step < 3:
            life.do("venmo", "add_friend", user_email=person.email)
    for time, label in people.ALARMS:
        life.do("phone", "create_alarm", time=time, label=label, repeat_days=["monday", "thursday"])


def _notes(life: Life) -> None:
    for title, content, tags in people.NOTES:
        life.do("simple_note", "create_note", title=title, content=content, tags=list(tags))


def _files(life: Life) -> None:
    for folder in sorted({path.rpartition("/")[0] for path, _ in people.FILES}):
        life.do("file_system", "create_directory", directory_path=f"~/{folder}")
    for path, content in people.FILES:
        life.do("file_system", "create_file", file_path=f"~/{path}", content=content)


def _todos(life: Life) -> None:
    for name, titles in people.PROJECTS:
        project = life.do("todoist", "create_project", name=name)["project_id"]
        life.do("todoist", "create_section", project_id=project, name="This week")
        for title in titles:
            life.do("todoist", "create_task", project_id=project, title=title)
    for name in people.LABELS:
        life.do("todoist", "create_label", name=name)


def _shopping(life: Life) -> None:
    from .builder import address

    card = life.do("amazon", "add_payment_card", **life.card)["payment_card_id"]
    place = life.do("amazon", "add_address", name="Home", **address(life.number))["address_id"]
    for app in ("venmo", "spotify"):
        life.do(app, "add_payment_card", **life.card)
    products = len(people.PRODUCTS)
    life.do("amazon", "add_product_to_cart", product_id=1 + life.number % products)
    life.do("amazon", "place_order", payment_card_id=card, address_id=place)
    life.do(
        "amazon", "add_product_to_cart", product_id=1 + (life.number + 2) % products, quantity=2
    )
    for step in (4, 5):
        life.do(
            "amazon", "add_product_to_wish_list", product_id=1 + (life.number + step) % products
        )


def _money(life: Life) -> None:
    for step, (amount, note) in enumerate(people.PAYMENTS):
        receiver = people.PEOPLE[life.other(step)].email
        life.do(
            "venmo",
            "create_transaction",
            receiver_email=receiver,
            amount=amount + life.number,
            description=note,
        )
    for step, (amount, note) in enumerate(people.REQUESTS):
        debtor = people.PEOPLE[life.other(step)].email
        life.do(
            "venmo",
            "create_payment_request",
            user_email=debtor,
            amount=amount + life.number,
            description=note,
        )
    members = [people.PEOPLE[life.other(step)].email for step in range(2)]
    group = life.do(
        "splitwise", "create_group", name=f"{life.person.first}'s trip", member_emails=members
    )["group_id"]
    for amount, what in people.EXPENSES:
        life.do(
            "splitwise",
            "record_expense",
            description=what,
            paid_amount=amount + 3 * life.number,
            payer_email=life.person.email,
            debtor_emails=[life.person.email, *members],
            group_id=group,
        )


def _letters(life: Life) -> None:
    from .builder import phone_number

    day = people.DAYS[life.number]
    for step, (subject, body) in enumerate(people.EMAILS):
        to = [people.PEOPLE[life.other(step)].email]
        life.do(
            "gmail", "send_email", email_addresses=to, subject=subject.format(day=day), body=body
        )
    life.do(
        "gmail",
        "create_draft",
        recipient_email_addresses=[people.PEOPLE[life.other(3)].email],
        subject="Plans for June",
        body="Let me know which weekend is free.",
    )
    for step, message in enumerate(people.MESSAGES):
        life.do(
            "phone",
            "send_text_message",
            phone_number=phone_number(life.other(step)),
            message=message,
        )


def _music(life: Life) -> list[int]:
    from .builder import HITS, LIBRARY

    hits, others = LIBRARY
    songs = [1 + (life.number * 2 + step) % HITS for step in range(hits)]
    songs += [
        HITS + 1 + (life.number * 5 + step) % (len(people.SONGS) - HITS) for step in range(others)
    ]
    for song in songs:
        life.do("spotify", "add_song_to_library", song_id=song)
    life.do("spotify", "add_album_to_library", album_id=1 + life.number % len(people.ALBUMS))
    for title, part in (("Morning mix", songs[:2]), ("Long drives", songs[2:5])):
        playlist = life.do("spotify", "create_playlist", title=title)["playlist_id"]
        for song in part:
            life.do("spotify", "add_song_to_playlist", playlist_id=playlist, song_id=song)
    life.do("spotify", "like_song", song_id=songs[0])
    life.do("spotify", "follow_artist", artist_id=1 + life.number % len(people.ARTISTS))
    life.do(
        "spotify",
        "review_song",
        song_id=songs[1],
        rating=4,
        title="Nice",
        text="Good on a grey day.",
    )
    return songs
