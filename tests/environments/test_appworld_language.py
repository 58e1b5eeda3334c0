"""The phrases for AppWorld's APIs against the APIs' own documents, the way calls become code, and
the canary filter."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from coevolve.environments import appworld_root
from coevolve.environments.workers.appworld.canary import clean
from coevolve.environments.workers.appworld.code import PAGE_ROWS, code, left_out
from coevolve.environments.workers.appworld.phrases import HARMLESS_CALLS, phrases
from coevolve.environments.workers.appworld.values import known_values, made_up
from coevolve.environments.workers.data_files import check_phrases

SLOT = re.compile(r"\{([\w.]+)\}")
CANARY = "appworld:" + "0a1b2c3:01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture(scope="module")
def documents() -> dict[str, dict]:
    """AppWorld's documents by `app.api`."""
    folder = appworld_root.chosen() / "data" / "api_docs" / "standard"
    files = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {
        f"{app}.{api}": document for app, apis in files.items() for api, document in apis.items()
    }


def keys_of(schema) -> set[str]:
    """All keys in a response schema."""
    if isinstance(schema, dict):
        return set(schema).union(*map(keys_of, schema.values()))
    return set().union(*map(keys_of, schema)) if isinstance(schema, list) else set()


@pytest.mark.appworld
def test_phrases_name_parameters_that_the_apis_have(documents):
    """Slots and parameters of the phrase files are those of the documented APIs."""
    parameters = {name: [p["name"] for p in d["parameters"]] for name, d in documents.items()}
    check_phrases(phrases(), parameters)


@pytest.mark.appworld
@pytest.mark.parametrize("name", sorted(phrases()))
def test_phrases_speak_of_what_the_api_shows_and_answers(name, documents):
    """Phrases use the parameters that the tool shows and the keys of its answer, and have a clause
    for every required one."""
    entry, document = phrases()[name], documents[name]
    hidden = left_out(document["parameters"])
    required = {p["name"] for p in document["parameters"] if p["required"]} - set(hidden)
    shown = {*entry.takes, *entry.needs, *entry.optional} | required
    for template in (*entry.do, *entry.optional.values(), *entry.refer.values()):
        assert set(SLOT.findall(template)) <= shown
    assert {*entry.literal, *entry.lookup_only} <= shown
    assert all(required <= set(SLOT.findall(template)) for template in entry.do)
    answered = keys_of(document["response_schemas"]["success"])
    assert {*entry.refer, *entry.rows, *entry.facts} <= answered
    for template in (*entry.rows.values(), *entry.facts.values()):
        assert {part for slot in SLOT.findall(template) for part in slot.split(".")} <= answered
    asks = document["method"] == "GET" or name == "splitwise.show_people_balance"
    assert (document["method"] == "GET" if entry.read_only is None else entry.read_only) == asks
    assert asks != bool(entry.do)


@pytest.mark.appworld
def test_the_setup_of_a_program_is_the_login_of_each_app(documents):
    """Every variable of the setup is bound by its statement, in an order that defines before use;
    every API that wants a token gets its own app's."""
    tools = [{"name": n, "app": n.partition(".")[0], "document": d} for n, d in documents.items()]
    described, known = code(tools), set()
    for variable, statement in described["setup"].items():
        tree = ast.parse(statement)
        assert [target.id for target in tree.body[0].targets] == [variable]
        used = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        assert used - {"apis", "row"} <= known
        known.add(variable)
    for name, document in documents.items():
        wanted = {parameter["name"] for parameter in document["parameters"]}
        added = described["arguments"].get(name, {})
        assert ("access_token" in wanted) == (
            added.get("access_token") == f"{name.partition('.')[0]}_token"
        )
        assert ("page_limit" in wanted) == (added.get("page_limit") == str(PAGE_ROWS))
        assert set(added.values()) - {str(PAGE_ROWS)} <= known


def test_what_is_made_up_is_for_parameters_that_requests_have():
    """The data files name one another's entries only, and the harmless call changes nothing."""
    assert all(c["tool"].partition(".")[2].startswith(("get_", "show_")) for c in HARMLESS_CALLS)
    entries = phrases().values()
    parameters = {slot for entry in entries for t in entry.do for slot in SLOT.findall(t)}
    parameters |= {n for entry in entries for n in (*entry.takes, *entry.needs, *entry.optional)}
    for key in made_up():
        api, _, parameter = key.rpartition(".")
        assert parameter in parameters and (not api or api in phrases()), key


def test_values_come_from_the_public_apis_and_survive_their_failure():
    """Names of what is the supervisor's, no identifiers, and what is invented where an API answers
    nothing."""
    answers = {
        "search_contacts": [
            {"first_name": "Ann", "last_name": "Bee", "email": "ann@example.com", "contact_id": 7}
        ],
        "show_directory": ["~/a.txt", "~/b.txt"],
    }
    found = known_values(lambda app, api, **arguments: answers.get(api))
    assert found["venmo.search_users.query"] == ["Ann Bee"]
    assert found["email_addresses"] == [["ann@example.com"]] and found["file_path"] == [
        "~/a.txt",
        "~/b.txt",
    ]
    assert 7 not in [value for known in found.values() for value in known]
    assert found["amount"] == made_up()["amount"] and list(found) == sorted(found)
    bare = known_values(lambda app, api, **arguments: None)
    assert "file_path" not in bare and bare["message"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"# Canary String: {CANARY}\nprint(1)", "# \nprint(1)"),
        (f'{{"a": 1, "canary_string": "{CANARY}"}}', '{"a": 1, ""}'),
        (f"before {CANARY.upper()} after", "before  after"),
        ("appworld: no canary here", "appworld: no canary here"),
        ("", ""),
    ],
)
def test_the_canary_is_taken_out(text, left):
    """Wherever the string stands, none of it is left, and other text stays as it is."""
    assert clean(text) == left
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", clean(text))


def test_nothing_of_the_benchmark_lies_in_the_repository():
    """No canary, no database, no unpacked application: they may not be published unencrypted."""
    root = Path(__file__).parents[2]
    folders = [root / name for name in ("coevolve", "cli", "docs", "shell", "tests")]
    files = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    real = re.compile(rb"appworld:[0-9a-f]{7}:[0-9a-f]{8}-[0-9a-f]{4}")
    for path in files:
        assert path.suffix not in (".db", ".bundle")
        assert not real.search(path.read_bytes()), path
    assert "appworld" in (root / ".gitignore").read_text()


def test_a_text_in_quotes_is_a_text_and_not_a_reference():
    """Where another app's content may stand, the quotes belong to the text and not to the
    template."""
    for name in ("file_system.create_file", "file_system.update_file", "simple_note.create_note"):
        entry = phrases()[name]
        assert "content" not in entry.literal
        assert all('"{content}"' not in template for template in entry.do)
        texts = made_up()[f"{name}.content"]
        assert entry.words["content"] == {json.dumps(text): f'"{text}"' for text in texts}
