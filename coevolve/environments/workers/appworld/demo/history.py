"""The demo people's activity before any task begins: every record through the apps' public APIs.

Dates lie in the weeks before AppWorld's date. Who does what with whom goes round in a fixed order,
so that everybody has something of each kind.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from .content import APPS, CATALOGUES, CONTENT

BEGIN = datetime(2023, 4, 3, 9, 0)
LOGIN_TIME = datetime(2100, 1, 1)
"""A token's last day counts from its login, so that no token runs out."""
HITS = 12  # Songs at the beginning of the catalogue that go round among all
LIBRARY_HITS, LIBRARY_OTHERS = 7, 18
"""Songs in each person's library, of the hits and of the rest: more than one page."""
PEOPLE = CONTENT.people


class Accounts:
    """One person's accounts: calls with the right token, each some hours after the one before."""

    def __init__(self, apis: Any, clock: Any, number: int):
        self.apis, self.clock, self.number = apis, clock, number
        self.person, self.time = PEOPLE[number], BEGIN + timedelta(minutes=17 * number)
        self.tokens = {}
        clock.move_to(LOGIN_TIME)
        for app in APPS:
            name, password = self.person.user_name(app), self.person.app_password(app)
            self.tokens[app] = apis[app].login(username=name, password=password)["access_token"]

    def call(self, app: str, api: str, **arguments: Any) -> Any:
        self.time += timedelta(hours=5)
        self.clock.move_to(self.time)
        return self.apis[app][api](access_token=self.tokens[app], **arguments)

    def other(self, step: int) -> int:
        """Returns the number of somebody else; the first, second … after this person."""
        return (self.number + 1 + step % (len(PEOPLE) - 1)) % len(PEOPLE)

    def email_of(self, step: int) -> str:
        return PEOPLE[self.other(step)].email


def record_history(apis: Any, clock: Any) -> list[list[dict[str, Any]]]:
    """Makes all records; returns the songs in each person's library. `clock` is freezegun's, moved
    on before each call (starting AppWorld's own freezer each time costs more than the call)."""
    everybody = [Accounts(apis, clock, number) for number in range(len(PEOPLE))]
    for person in everybody:
        for record in (_contacts, _notes, _files, _todos, _shopping):
            record(person)
    for person in everybody:
        _money(person)
        _messages(person)
    libraries = [_music(person) for person in everybody]
    return [
        [person.call("spotify", "show_song", song_id=song) for song in songs]
        for person, songs in zip(everybody, libraries, strict=True)
    ]


def _contacts(me: Accounts) -> None:
    for step in range(len(PEOPLE) - 1):
        person = PEOPLE[me.other(step)]
        me.call(
            "phone",
            "add_contact",
            first_name=person.first,
            last_name=person.last,
            **person.contact,
            relationships=[person.relationships[me.number % 2]],
            birthday=person.birthday,
            home_address="{street_address}, {city}, {state}".format(**person.address),
        )
        if step < 3:
            me.call("venmo", "add_friend", user_email=person.email)
    for time, label in CONTENT.alarms:
        me.call("phone", "create_alarm", time=time, label=label, repeat_days=CONTENT.alarm_days)


def _notes(me: Accounts) -> None:
    for title, content, tags in CONTENT.notes:
        me.call("simple_note", "create_note", title=title, content=content, tags=tags)


def _files(me: Accounts) -> None:
    for folder in sorted({path.rpartition("/")[0] for path, _ in CONTENT.files}):
        me.call("file_system", "create_directory", directory_path=f"~/{folder}")
    for path, content in CONTENT.files:
        me.call("file_system", "create_file", file_path=f"~/{path}", content=content)


def _todos(me: Accounts) -> None:
    for name, titles in CONTENT.projects:
        project = me.call("todoist", "create_project", name=name)["project_id"]
        me.call("todoist", "create_section", project_id=project, name=CONTENT.section)
        for title in titles:
            me.call("todoist", "create_task", project_id=project, title=title)
    for name in CONTENT.labels:
        me.call("todoist", "create_label", name=name)


def _shopping(me: Accounts) -> None:
    def product(step: int) -> int:
        return 1 + (me.number + step) % len(CATALOGUES["amazon"]["Product"].rows)

    person = me.person
    card = me.call("amazon", "add_payment_card", **person.card)["payment_card_id"]
    place = me.call("amazon", "add_address", name="Home", **person.address)["address_id"]
    for app in ("venmo", "spotify"):
        me.call(app, "add_payment_card", **person.card)
    me.call("amazon", "add_product_to_cart", product_id=product(0))
    me.call("amazon", "place_order", payment_card_id=card, address_id=place)
    me.call("amazon", "add_product_to_cart", product_id=product(2), quantity=2)
    for step in (4, 5):
        me.call("amazon", "add_product_to_wish_list", product_id=product(step))


def _money(me: Accounts) -> None:
    for step, (amount, note) in enumerate(CONTENT.payments):
        payment = {"amount": amount + me.number, "description": note}
        me.call("venmo", "create_transaction", receiver_email=me.email_of(step), **payment)
    for step, (amount, note) in enumerate(CONTENT.requests):
        payment = {"amount": amount + me.number, "description": note}
        me.call("venmo", "create_payment_request", user_email=me.email_of(step), **payment)
    members, name = [me.email_of(0), me.email_of(1)], f"{me.person.first}'s trip"
    group = me.call("splitwise", "create_group", name=name, member_emails=members)["group_id"]
    for amount, description in CONTENT.expenses:
        me.call(
            "splitwise",
            "record_expense",
            description=description,
            paid_amount=amount + 3 * me.number,
            payer_email=me.person.email,
            debtor_emails=[me.person.email, *members],
            group_id=group,
        )


def _messages(me: Accounts) -> None:
    for step, (subject, body) in enumerate(CONTENT.emails):
        email = {"subject": subject.format(day=me.person.weekday), "body": body}
        me.call("gmail", "send_email", email_addresses=[me.email_of(step)], **email)
    subject, body = CONTENT.draft
    to = [me.email_of(3)]
    me.call("gmail", "create_draft", recipient_email_addresses=to, subject=subject, body=body)
    for step, message in enumerate(CONTENT.messages):
        number = PEOPLE[me.other(step)].phone_number
        me.call("phone", "send_text_message", phone_number=number, message=message)


def _music(me: Accounts) -> list[int]:
    catalogue = CATALOGUES["spotify"]
    rest = len(catalogue["Song"].rows) - HITS
    songs = [1 + (me.number * 2 + step) % HITS for step in range(LIBRARY_HITS)]
    songs += [HITS + 1 + (me.number * 5 + step) % rest for step in range(LIBRARY_OTHERS)]
    artist = 1 + me.number % len(catalogue["Artist"].rows)  # each has one album, of the same number
    for song in songs:
        me.call("spotify", "add_song_to_library", song_id=song)
    me.call("spotify", "add_album_to_library", album_id=artist)
    for title, first, last in CONTENT.playlists:
        playlist = me.call("spotify", "create_playlist", title=title)["playlist_id"]
        for song in songs[first:last]:
            me.call("spotify", "add_song_to_playlist", playlist_id=playlist, song_id=song)
    me.call("spotify", "like_song", song_id=songs[0])
    me.call("spotify", "follow_artist", artist_id=artist)
    rating, title, text = CONTENT.review
    review = {"rating": rating, "title": title, "text": text}
    me.call("spotify", "review_song", song_id=songs[1], **review)
    return songs
