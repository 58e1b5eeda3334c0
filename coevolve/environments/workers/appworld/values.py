"""What the supervisor of an AppWorld start state would say: names and texts of their own making, and the names of what is theirs.

`values(call)` gives `Opened.values`. What is theirs comes from the public APIs alone (`call(app, api)` → the response, logged
in), so that nothing appears that the person could not see. Identifiers are not among it: those are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[..., Any]
MOST = 12
"""Names taken of one kind."""

INVENTED: dict[str, list[Any]] = {
    "spotify.create_playlist.title": [
        "Rainy Sunday",
        "Road to the coast",
        "Slow mornings",
        "Kitchen dancing",
    ],
    "spotify.update_playlist.title": ["Evening walk", "Deep focus", "Summer porch"],
    "rating": [2, 3, 4, 5],
    "spotify.review_song.title": ["Lovely", "Too long", "On repeat"],
    "spotify.review_album.title": ["Lovely", "A bit uneven", "On repeat"],
    "amazon.write_product_review.title": ["Does the job", "Well made", "Smaller than it looks"],
    "text": [
        "I would recommend it to anyone.",
        "Not quite what I had hoped for.",
        "It keeps getting better.",
    ],
    "spotify.set_volume.volume": [15, 35, 60, 85],
    "quantity": [2, 3, 4],
    "question": ["Does it come with a warranty?", "Is it fit for outdoors?", "What is it made of?"],
    "directory_path": ["~/taxes", "~/documents/letters", "~/recipes", "~/photos/spring"],
    "file_system.create_file.file_path": [
        "~/ideas.txt",
        "~/documents/todo.txt",
        "~/documents/route.txt",
    ],
    "file_system.create_file.content": [
        "call the dentist",
        "turn left at the mill",
        "three eggs, flour, milk",
    ],
    "file_system.update_file.content": [
        "to be done next week",
        "nothing left to do",
        "see the other file",
    ],
    "destination_file_path": ["~/documents/copy.txt", "~/archive.txt", "~/downloads/kept.txt"],
    "simple_note.create_note.title": ["Birthday party", "Bike repair", "Questions for the doctor"],
    "simple_note.create_note.content": [
        "balloons and a cake",
        "new brake pads, oil for the chain",
        "ask about the knee",
    ],
    "simple_note.update_note.title": ["Old plans", "For later", "Done list"],
    "added_content": ["- and some honey", "- ask Mum about it", "- by the end of June"],
    "amount": [6.5, 14, 22.75, 31],
    "venmo.create_transaction.description": ["cinema", "shared taxi", "lemonade stand"],
    "venmo.create_payment_request.description": ["museum tickets", "parking", "half of the rent"],
    "venmo.update_transaction.description": ["thanks again", "for the weekend", "as agreed"],
    "comment": ["Thank you!", "Was it not less than that?", "Let us talk about this one."],
    "splitwise.create_group.name": ["Ski weekend", "Shared kitchen", "Choir outing"],
    "splitwise.update_group.name": ["Summer house", "Our trip", "Old flat"],
    "message": [
        "See you at six!",
        "I am running ten minutes late.",
        "Could you bring the blue folder?",
    ],
    "first_name": ["Nadia", "Felix", "Greta"],
    "last_name": ["Oakhurst", "Brandner", "Silvestri"],
    "phone.add_contact.phone_number": ["5550177001", "5550177002", "5550177003"],
    "work_address": ["4 Mill Road, Lakewood", "88 Harbour Street, Fairhaven"],
    "time": ["06:15", "09:45", "17:30", "22:05"],
    "phone.create_alarm.label": ["Call the bank", "Take the bread out", "Stretch"],
    "repeat_days": [["monday"], ["tuesday", "friday"], ["saturday", "sunday"]],
    "subject": ["A small favour", "Saturday's plan", "Photos from the lake"],
    "body": [
        "Could you water my plants next week?",
        "We meet at the station at nine.",
        "They turned out well.",
    ],
    "gmail.label_thread.label": ["family", "to answer", "bills"],
    "todoist.create_project.name": ["Move house", "Marathon", "Spring cleaning"],
    "todoist.update_project.name": ["Household", "Work things", "This year"],
    "todoist.create_section.name": ["Later", "Waiting for others", "Ideas"],
    "todoist.create_task.title": ["Renew the passport", "Call the plumber", "Sort the photos"],
    "todoist.create_sub_task.title": ["Find the form", "Ask for a price", "Choose a date"],
    "todoist.post_task_comment.content": [
        "I will start tomorrow.",
        "This one can wait.",
        "Half done.",
    ],
    "todoist.create_label.name": ["errand", "quick", "with Lena"],
}


def values(call: Call) -> dict[str, list[Any]]:
    """Parameter → values, as `protocol.Opened` has it."""
    people = _rows(call("phone", "search_contacts"))
    addresses = [row["email"] for row in people if row.get("email")]
    names = [f"{row['first_name']} {row['last_name']}" for row in people]
    files = [
        path
        for path in call("file_system", "show_directory", entry_type="files") or []
        if isinstance(path, str)
    ]
    own = {
        "venmo.search_users.query": names,
        "venmo.search_friends.query": names,
        "splitwise.search_users.query": names,
        "phone.search_contacts.query": names,
        "spotify.search_songs.query": [
            row["title"] for row in _rows(call("spotify", "show_song_library"))
        ],
        "simple_note.search_notes.query": [
            row["title"] for row in _rows(call("simple_note", "search_notes"))
        ],
        "amazon.search_products.query": [
            row["product_name"] for row in _rows(call("amazon", "show_wish_list"))
        ],
        "email_addresses": [[address] for address in addresses],
        "recipient_email_addresses": [[address] for address in addresses],
        "member_emails": [[address] for address in addresses[:3]] + [addresses[:2]],
        "file_path": files,
        "source_file_path": files,
    }
    found = INVENTED | {name: known[:MOST] for name, known in own.items() if any(known)}
    return {name: known for name, known in sorted(found.items()) if known}


def _rows(response: Any) -> list[dict]:
    """The rows of a response; none where it failed."""
    return [row for row in response if isinstance(row, dict)] if isinstance(response, list) else []
