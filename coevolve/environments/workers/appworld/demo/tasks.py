"""The tasks of the self-made AppWorld root: six scenarios of three, each with a reference solution as code and an evaluation in
AppWorld's own form (`evaluate(test, public_data, private_data, main_user, models, ground_truth_answer)`).

The tasks of a scenario differ in person and values, as the official ones do. `payback`, `songcount`, `genrelist` and `notetodo`
are for training, `textbest` for development, `mailfile` is held out: its states hold a file that no other state has.
"""

from __future__ import annotations

from textwrap import dedent, indent
from typing import Any, NamedTuple

from .people import LETTERS, NOTES, PEOPLE

SPLITS = {
    "demo_train": ("payback", "songcount", "genrelist", "notetodo"),
    "demo_dev": ("textbest",),
    "demo_test": ("mailfile",),
}

NO_OP_FAIL, NO_OP_PASS = "no_op_fail", "no_op_pass"


class Check(NamedTuple):
    """One test of an evaluation; `label` says whether doing nothing passes it."""

    requirement: str
    body: str
    label: str = NO_OP_FAIL


class DemoTask(NamedTuple):
    id: str
    supervisor: int
    """Index in PEOPLE."""
    instruction: str
    solution: str
    """Code that completes the task in one block."""
    checks: tuple[Check, ...]
    difficulty: int
    apps: tuple[str, ...]
    public: dict[str, Any]
    private: dict[str, Any]
    answer: Any = None
    files: tuple[tuple[str, str], ...] = ()
    """Files of the supervisor's that are there in this task's state alone."""

    @property
    def evaluation(self) -> str:
        tests = [
            f"with test({check.requirement!r}):\n{indent(check.body, '    ')}"
            for check in self.checks
        ]
        head = "def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):\n"
        return head + indent("\n".join(tests), "    ") + "\n"


def _login(*apps: str) -> str:
    lines = [
        'passwords = {row["account_name"]: row["password"] for row in apis.supervisor.show_account_passwords()}',
        "profile = apis.supervisor.show_profile()",
    ]
    for app in apps:
        name = 'profile["phone_number"]' if app == "phone" else 'profile["email"]'
        login = f'apis.{app}.login(username={name}, password=passwords["{app}"])'
        lines.append(f'{app} = {login}["access_token"]')
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return dedent(text).strip("\n") + "\n"


_SAID = "models.end.supervisor.Task.all()[0].to_dict(humanize=True)"
_SUCCESS = f'test.case({_SAID}["status"], "==", "success")\n'
_ANSWER = f'test.answer({_SAID}["answer"], ground_truth_answer)\n'
_NO_ANSWER = Check("assert that no answer was given, as none was asked for", _ANSWER, NO_OP_PASS)


def _only(*names: str) -> Check:
    """That nothing but these models changed, in a task that is declared done; doing nothing fails it where something has to change."""
    wanted = "{" + ", ".join(repr(name) for name in names) + "}" if names else "set()"
    return Check(
        f"assert that exactly these models changed: {', '.join(names) or 'none'}",
        f'test.case(models.changed_model_names(), "==", {wanted})\n' + (_SUCCESS if names else ""),
        NO_OP_FAIL if names else NO_OP_PASS,
    )


def payback(number: int, person: int, friend: int, amount: float, note: str) -> DemoTask:
    other = PEOPLE[friend]
    solution = _login("venmo") + _code(
        f"""
        found = apis.venmo.search_users(query="{other.name}", access_token=venmo)
        friend = next(user for user in found if user["first_name"] == "{other.first}")
        apis.venmo.create_transaction(
            receiver_email=friend["email"], amount={amount}, description="{note}", access_token=venmo
        )
        apis.supervisor.complete_task()
        """
    )
    payment = _code(
        """
        added, updated, removed = models.changed_records("venmo.Transaction")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
        test.case(added[0].receiver.email, "==", private_data.receiver_email)
        test.case(added[0].amount, "==", public_data.amount)
        test.case(added[0].sender.email, "==", main_user.email)
        test.case(added[0].description, "==", public_data.note)
        test.case(added[0].private, "==", False)
        """
    )
    return DemoTask(
        f"payback_{number}",
        person,
        f'Send ${amount:g} to {other.name} on Venmo, with the note "{note}".',
        solution,
        (
            _only("venmo.Transaction", "venmo.User", "venmo.Notification"),
            Check(
                "assert that one payment with the right receiver, amount and note was made", payment
            ),
            _NO_ANSWER,
        ),
        1,
        ("venmo",),
        {"amount": amount, "note": note},
        {"receiver_email": other.email},
    )


_LIBRARY = """
songs = []
for page in range(5):
    rows = apis.spotify.show_song_library(page_index=page, page_limit=20, access_token=spotify)
    songs += [apis.spotify.show_song(song_id=row["song_id"]) for row in rows]
    if len(rows) < 20:
        break
"""


def songcount(number: int, person: int, genre: str, count: int) -> DemoTask:
    solution = (
        _login("spotify")
        + _code(_LIBRARY)
        + _code(
            f"""
        apis.supervisor.complete_task(answer=sum(song["genre"] == "{genre}" for song in songs))
        """
        )
    )
    return DemoTask(
        f"songcount_{number}",
        person,
        f"How many of the songs in my Spotify song library are {genre} songs?",
        solution,
        (_only(), Check("assert that the answer is the number of songs", _ANSWER + _SUCCESS)),
        1,
        ("spotify",),
        {"genre": genre},
        {},
        count,
    )


def genrelist(number: int, person: int, genre: str, title: str, songs: list[str]) -> DemoTask:
    solution = (
        _login("spotify")
        + _code(_LIBRARY)
        + _code(
            f"""
        playlist = apis.spotify.create_playlist(title="{title}", access_token=spotify)["playlist_id"]
        for song in songs:
            if song["genre"] == "{genre}":
                apis.spotify.add_song_to_playlist(
                    playlist_id=playlist, song_id=song["song_id"], access_token=spotify
                )
        apis.supervisor.complete_task()
        """
        )
    )
    made = _code(
        """
        added, updated, removed = models.changed_records("spotify.Playlist")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
        test.case(added[0].title, "==", public_data.title)
        test.case(added[0].is_public, "==", False)
        """
    )
    filled = _code(
        """
        added, updated, removed = models.changed_records("spotify.PlaylistSong")
        test.case((len(updated), len(removed)), "==", (0, 0))
        test.case(sorted(row.song.title for row in added), "==", sorted(private_data.songs))
        """
    )
    return DemoTask(
        f"genrelist_{number}",
        person,
        f'Make a Spotify playlist called "{title}" out of all the {genre} songs in my song library.',
        solution,
        (
            _only("spotify.Playlist", "spotify.PlaylistSong"),
            Check("assert that one playlist with the right title was made", made),
            Check("assert that the playlist holds the right songs and nothing else", filled),
            _NO_ANSWER,
        ),
        2,
        ("spotify",),
        {"genre": genre, "title": title},
        {"songs": songs},
    )


def notetodo(number: int, person: int, note: int, project: str) -> DemoTask:
    title, content, _ = NOTES[note]
    solution = _login("simple_note", "todoist") + _code(
        f"""
        found = apis.simple_note.search_notes(query="{title}", access_token=simple_note)
        row = next(row for row in found if row["title"] == "{title}")
        content = apis.simple_note.show_note(note_id=row["note_id"], access_token=simple_note)["content"]
        projects = apis.todoist.show_projects(query="{project}", access_token=todoist)
        project = next(one for one in projects if one["name"] == "{project}")
        for line in content.splitlines():
            apis.todoist.create_task(
                project_id=project["project_id"], title=line.removeprefix("- "), access_token=todoist
            )
        apis.supervisor.complete_task()
        """
    )
    listed = _code(
        """
        added, updated, removed = models.changed_records("todoist.Task")
        test.case((len(updated), len(removed)), "==", (0, 0))
        test.case(sorted(row.title for row in added), "==", sorted(private_data.titles))
        test.case({row.project.name for row in added}, "==", {public_data.project})
        test.case({(row.is_completed, row.description or None, row.due_date) for row in added}, "==", {(False, None, None)})
        """
    )
    return DemoTask(
        f"notetodo_{number}",
        person,
        f'Add each item of my Simple Note "{title}" as a task of its own to the Todoist project "{project}".',
        solution,
        (
            _only("todoist.Task"),
            Check("assert that each item became a task of the project", listed),
            _NO_ANSWER,
        ),
        2,
        ("simple_note", "todoist"),
        {"title": title, "project": project},
        {"titles": [line.removeprefix("- ") for line in content.splitlines()]},
    )


def textbest(number: int, person: int, friend: int, song: str) -> DemoTask:
    other = PEOPLE[friend]
    solution = (
        _login("spotify", "phone")
        + _code(_LIBRARY)
        + _code(
            f"""
        best = max(songs, key=lambda song: song["rating"])
        found = apis.phone.search_contacts(query="{other.name}", access_token=phone)
        contact = next(one for one in found if one["first_name"] == "{other.first}")
        apis.phone.send_text_message(
            phone_number=contact["phone_number"], message=best["title"], access_token=phone
        )
        apis.supervisor.complete_task()
        """
        )
    )
    sent = _code(
        """
        added, updated, removed = models.changed_records("phone.GlobalTextMessage")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
        test.case(added[0].receiver.first_name, "==", private_data.first_name)
        test.case(added[0].message, "==", private_data.song)
        """
    )
    return DemoTask(
        f"textbest_{number}",
        person,
        f"Text {other.name} the title of the song with the highest rating in my Spotify song library, and nothing else.",
        solution,
        (
            _only("phone.GlobalTextMessage", "phone.UserTextMessage"),
            Check("assert that one message with the title went to the right person", sent),
            _NO_ANSWER,
        ),
        3,
        ("spotify", "phone"),
        {"friend": other.name},
        {"first_name": other.first, "song": song},
    )


def mailfile(number: int, person: int, friend: int, file: int, subject: str) -> DemoTask:
    other, (path, content) = PEOPLE[friend], LETTERS[file]
    solution = _login("file_system", "phone", "gmail") + _code(
        f"""
        content = apis.file_system.show_file(file_path="~/{path}", access_token=file_system)["content"]
        found = apis.phone.search_contacts(query="{other.name}", access_token=phone)
        contact = next(one for one in found if one["first_name"] == "{other.first}")
        apis.gmail.send_email(
            email_addresses=[contact["email"]], subject="{subject}", body=content, access_token=gmail
        )
        apis.supervisor.complete_task()
        """
    )
    sent = _code(
        """
        added, updated, removed = models.changed_records("gmail.Email")
        test.case((len(added), len(updated), len(removed)), "==", (1, 0, 0))
        test.case([user.email for user in added[0].recipients], "==", [private_data.email])
        test.case(added[0].subject, "==", public_data.subject)
        test.case(added[0].body, "==", private_data.body)
        """
    )
    return DemoTask(
        f"mailfile_{number}",
        person,
        f'Email {other.name} the content of my file ~/{path}, as it is, with the subject "{subject}". '
        "The address is in my phone's contacts.",
        solution,
        (
            _only("gmail.Email", "gmail.GlobalEmailThread", "gmail.UserEmailThread"),
            Check(
                "assert that one email with the right recipient, subject and body was sent", sent
            ),
            _NO_ANSWER,
        ),
        2,
        ("file_system", "phone", "gmail"),
        {"subject": subject},
        {"email": other.email, "body": content},
        files=((path, content),),
    )


def tasks(libraries: list[list[dict[str, Any]]]) -> list[DemoTask]:
    """All tasks; `libraries` are the songs {title, genre, rating} in the library of each person."""

    def of(person: int, genre: str) -> list[str]:
        return [song["title"] for song in libraries[person] if song["genre"] == genre]

    def best(person: int) -> str:
        return max(libraries[person], key=lambda song: song["rating"])["title"]

    counts = [(0, "folk"), (2, "electronic"), (4, "indie")]
    lists = [
        (1, "indie", "Train window"),
        (2, "electronic", "Night bus"),
        (4, "jazz", "Kitchen jazz"),
    ]
    return [
        payback(1, 0, 1, 12.5, "noodle lunch"),
        payback(2, 2, 4, 7.0, "bus tickets"),
        payback(3, 5, 3, 23.4, "garden tools"),
        *(
            songcount(n, person, genre, len(of(person, genre)))
            for n, (person, genre) in enumerate(counts, 1)
        ),
        *(
            genrelist(n, who, genre, title, of(who, genre))
            for n, (who, genre, title) in enumerate(lists, 1)
        ),
        notetodo(1, 0, 0, "Home"),
        notetodo(2, 3, 2, "Home"),
        notetodo(3, 4, 1, "Office"),
        textbest(1, 1, 2, best(1)),
        textbest(2, 3, 0, best(3)),
        textbest(3, 5, 4, best(5)),
        mailfile(1, 0, 3, 0, "Packing list"),
        mailfile(2, 2, 5, 1, "My budget"),
        mailfile(3, 4, 1, 2, "The recipe"),
    ]
