"""The desk as its users meet it: a real worker process, driven over its pipes; what is right is
taken from `describe`, from the tasks' solutions, and from an independent filling of the language
templates.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from statistics import median

import msgspec
import pytest

from coevolve.environments.protocol import ActionResult, Description, Graded, Opened, Tool
from coevolve.environments.workers import launch
from coevolve.records import Task

DESK = launch.command(sys.executable, "desk.worker")
PREPARATIONS, COMPLETIONS = {"open", "check", "sync"}, {"save", "push", "seal"}


class Worker:
    """A desk process and one request at a time."""

    def __init__(self, hash_seed: str = "0"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        self._process = subprocess.Popen(
            DESK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._sessions = itertools.count()

    def ask(self, *requests: dict) -> list[dict]:
        """The replies to requests that are sent in one go."""
        lines = [msgspec.json.encode({"id": 1, **request}) + b"\n" for request in requests]
        self._process.stdin.write(b"".join(lines))
        self._process.stdin.flush()
        return [json.loads(self._process.stdout.readline()) for _ in requests]

    def results(self, *requests: dict) -> list:
        replies = self.ask(*requests)
        assert not any("error" in reply for reply in replies), replies
        return [reply["result"] for reply in replies]

    def result(self, **request: object):
        return self.results(request)[0]

    def open(self, start: dict) -> str:
        session = f"s{next(self._sessions)}"
        msgspec.convert(self.result(op="open", session=session, start=start), Opened)
        return session

    def step(self, session: str, *actions: object) -> list[ActionResult]:
        reply = self.result(
            op="step", steps=[{"session": session, "turn": 0, "actions": list(actions)}]
        )
        return msgspec.convert(reply["results"][0], list[ActionResult])

    def run(self, task: dict, *actions: object) -> tuple[list[ActionResult], Graded]:
        session = f"s{next(self._sessions)}"
        opened, stepped, graded, _ = self.results(
            {"op": "open", "session": session, "start": task["start"]},
            {"op": "step", "steps": [{"session": session, "turn": 0, "actions": actions}]},
            {"op": "evaluate", "session": session, "task": task},
            {"op": "close", "session": session},
        )
        msgspec.convert(opened, Opened)
        done = msgspec.convert(stepped["results"][0], list[ActionResult])
        return done, msgspec.convert(graded, Graded)

    def close(self) -> int:
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()


@pytest.fixture(scope="module")
def desk():
    worker = Worker()
    yield worker
    assert worker.close() == 0


@pytest.fixture(scope="module")
def tools(desk) -> dict[str, Tool]:
    return {
        tool.name: tool for tool in msgspec.convert(desk.result(op="describe"), Description).tools
    }


@pytest.fixture(scope="module")
def heldout(desk) -> list[dict]:
    return desk.result(op="tasks", split="heldout")["tasks"]


@pytest.fixture(scope="module")
def by_kind(heldout) -> dict[str, dict]:
    """One task of every kind."""
    return {task["kind"]: task for task in reversed(heldout)}


def call(tool: str, **arguments: object) -> dict:
    return {"tool": tool, "arguments": arguments}


def verb_of(action: dict) -> str:
    return action["tool"].split(".")[1]


def test_twelve_apps_of_fourteen_tools(tools):
    """The world is as wide as promised, and each tool's schema and language speak of the same
    parameters."""
    per_app = Counter(tool.app for tool in tools.values())
    assert per_app.pop("desk") == 2
    assert len(per_app) == 12 and set(per_app.values()) == {14}
    for tool in tools.values():
        slots = {slot for text in tool.language.do for slot in re.findall(r"{(\w+)}", text)}
        assert slots <= set(tool.parameters["properties"])
        assert not any(re.search(r"\w+\.\w+|_", text) for text in tool.language.do), (
            "a request names no tool"
        )


def test_every_own_task_is_solved_by_its_solution_and_not_by_a_control(desk, heldout):
    """Solutions work without an error and score 1; doing nothing and one harmless call score 0,
    with no progress."""
    (harmless,) = desk.result(op="describe")["harmless"]
    for task in heldout + desk.result(op="tasks", split="dev")["tasks"]:
        msgspec.convert({**task, "schema": "coevolve.task/1", "id": "own", "env": "desk"}, Task)
        results, graded = desk.run(task, *task["solution"][0])
        assert [r.error for r in results] == [None] * len(results)
        assert (graded.success, graded.score, graded.progress) == (True, 1.0, 1.0)
        for control in ([], [harmless]):
            results, graded = desk.run(task, *control)
            assert not any(r.error or r.effects for r in results)
            assert (graded.success, graded.score, graded.progress) == (False, 0.0, 0.0)


def test_no_call_of_a_solution_can_be_left_out(desk, by_kind):
    """Without any one call that is no look-up the task fails, with progress below 1."""
    for task in by_kind.values():
        solution = task["solution"][0]
        for i, action in enumerate(solution):
            if verb_of(action) not in ("find", "read"):
                _, graded = desk.run(task, *solution[:i], *solution[i + 1 :])
                assert not graded.success and graded.progress < 1


def test_only_the_right_preparation_and_completion_work(desk, by_kind):
    """Another preparation leaves the verb not ready; another completion loses the change, and the
    right one then has none."""
    prepared = completed = 0
    for task in by_kind.values():
        solution = task["solution"][0]
        for i, action in enumerate(solution):
            app, verb = action["tool"].split(".")
            for other in sorted((PREPARATIONS if verb in PREPARATIONS else set()) - {verb}):
                results, graded = desk.run(
                    task, *solution[:i], call(f"{app}.{other}"), *solution[i + 1 :]
                )
                assert results[i + 1].error == "not_ready" and not graded.success
                prepared += 1
            for other in sorted((COMPLETIONS if verb in COMPLETIONS else set()) - {verb}):
                results, graded = desk.run(task, *solution[:i], call(f"{app}.{other}"), action)
                assert [r.error for r in results[-2:]] == [
                    "change_lost",
                    "nothing_pending",
                ] and not graded.success
                completed += 1
    assert prepared > 50 and completed > 50


def test_the_last_preparation_counts(desk, by_kind):
    """The right preparation followed by another one is as good as the other one alone."""
    task = next(t for t in by_kind.values() if verb_of(t["solution"][0][0]) == "check")
    solution = task["solution"][0]
    app = solution[0]["tool"].split(".")[0]
    results, _ = desk.run(task, solution[0], call(f"{app}.open"), *solution[1:])
    assert results[2].error == "not_ready"


def test_conventions_differ_by_skill(by_kind):
    """Key, preparation and completion vary over the 72 skills: at least 15 combinations, none with
    a third of them."""
    combinations = Counter()
    for kind, task in by_kind.items():
        if kind.endswith("/given"):
            (goal,) = [a for a in task["solution"][0] if a["tool"] == kind.split("/")[0]]
            verbs = {verb_of(a) for a in task["solution"][0]}
            combinations[
                "id" in goal["arguments"],
                *sorted(verbs & PREPARATIONS),
                *sorted(verbs & COMPLETIONS),
            ] += 1
    assert sum(combinations.values()) == 72
    assert len(combinations) >= 15 and max(combinations.values()) < 24


def test_refusals_have_kinds_and_words_but_do_not_tell_the_convention(desk, by_kind):
    """Each way to fail has its own kind; a missing preparation reads the same for every skill."""
    task = by_kind["mail.drop/given"]
    known = desk.result(op="open", session="known", start=task["start"])["values"]["mail.drop.name"]
    stranger = next(n for n in ("Ann", "Bob", "Cleo", "Dan", "Eva") if n not in known)
    expected = {
        "unknown_tool": [call("mail.fly"), call("nowhere.find", name="Ann"), call("")],
        "missing_argument": [call("mail.find"), call("mail.drop"), call("desk.answer")],
        "bad_argument": [
            call("mail.find", name=known[0], hue="red"),
            call("mail.find", name=3),
            call("mail.find", name=[1]),
        ],
        "not_found": [call("mail.find", name=stranger), call("mail.read", owner="")],
        "nothing_pending": [call("mail.save"), call("mail.push"), call("mail.seal")],
        "bad_action": ["mail.drop('Ann')", {"tool": "mail.find"}, {"tool": 1, "arguments": {}}],
    }
    for kind, actions in expected.items():
        for action in actions:
            (result,) = desk.step("known", action)
            assert (
                result.error == kind
                and not result.effects
                and json.loads(result.observation)["error"]
            )
    words = set()
    for task in by_kind.values():
        solution = [a for a in task["solution"][0] if verb_of(a) not in PREPARATIONS]
        if len(solution) < len(task["solution"][0]):
            results, _ = desk.run(task, *solution)
            words |= {r.observation for r in results if r.error == "not_ready"}
    assert words == {'{"error":"not ready"}'}


def test_a_key_of_the_wrong_sort_is_a_bad_argument(desk, by_kind):
    """A skill that goes by name refuses an id, and the other way round, whatever the id."""
    for task in by_kind.values():
        goal = next(
            (
                a
                for a in task["solution"][0]
                if {"name", "id"} & set(a["arguments"]) and verb_of(a) not in ("find", "read")
            ),
            None,
        )
        if goal:
            (key,) = {"name", "id"} & set(goal["arguments"])
            other = {"name": "id", "id": "name"}[key]
            swapped = {**goal["arguments"], other: goal["arguments"][key]}
            del swapped[key]
            results, _ = desk.run(task, {"tool": goal["tool"], "arguments": swapped})
            assert results[0].error == "bad_argument"


def test_effects_are_public_changes_and_the_state_hash_sees_hidden_ones(desk, by_kind):
    """Setting twice is one effect, adding twice two, a pending change none; every hidden change
    moves the hash."""
    once = {"set": 1, "add": 2, "send": 2, "copy": 2, "mark": 1}
    seen = set()
    for kind, task in by_kind.items():
        verb = kind.split("/")[0].split(".")[1]
        if verb not in once:
            continue
        solution = task["solution"][0]
        results, graded = desk.run(task, *solution, *solution)
        effects = [e for r in results for e in r.effects]
        assert len(effects) == once[verb] and effects[0].value == effects[-1].value
        assert graded.success == (once[verb] == 1)
        seen.add(verb)
        for before, after, action in zip(results, results[1:], solution[1:], strict=False):
            if verb_of(action) not in ("find", "read"):
                assert before.state != after.state
    assert seen == set(once)
    (result,) = [
        r
        for r in desk.run(by_kind["mail.drop/given"], *by_kind["mail.drop/given"]["solution"][0])[0]
        if r.effects
    ]
    (effect,) = result.effects
    assert (effect.entity, effect.field, effect.op, effect.value) == (
        "mail",
        "record",
        "remove",
        None,
    )


def test_an_answer_is_state_and_a_wrong_one_fails(desk, by_kind):
    """Read-only tasks are checked: the right note passes, another word and a second answer do
    not."""
    task = by_kind["desk.answer/lookup"]
    read, answer = task["solution"][0]
    assert desk.run(task, answer)[1].success
    for wrong in ([call("desk.answer", text="zebra")], [answer, call("desk.answer", text="zebra")]):
        graded = desk.run(task, read, *wrong)[1]
        assert not graded.success and 0 < graded.progress < 1


def test_sessions_share_nothing_and_replays_agree(desk, by_kind):
    """Two interleaved sessions of one start go their own ways; the same calls give the same states
    and effects."""
    task = by_kind["farm.set/lookup"]
    one, two = desk.open(task["start"]), desk.open(task["start"])
    first = [desk.step(one, action)[0] for action in task["solution"][0]]
    assert desk.result(op="evaluate", session=two, task=task)["success"] is False
    second = desk.step(two, *task["solution"][0])
    assert first == second
    assert desk.result(op="evaluate", session=one, task=task) == desk.result(
        op="evaluate", session=two, task=task
    )


def test_start_states_are_pure_and_disjoint_from_every_split(desk):
    """A training start depends on its seed only, and no split's world is ever one of them."""
    starts = [desk.result(op="start", seed=f"s{i}", apps=None)["start"] for i in range(300)]
    assert starts[7] == desk.result(op="start", seed="s7", apps=["farm"])["start"]
    assert len({s["config"]["seed"] for s in starts}) == 300
    ranges = {"train": {s["config"]["seed"] // 10**9 for s in starts}}
    for split in ("demos", "dev", "heldout"):
        ranges[split] = {
            t["start"]["config"]["seed"] // 10**9
            for t in desk.result(op="tasks", split=split)["tasks"]
        }
    assert all(len(r) == 1 for r in ranges.values()) and len(set.union(*ranges.values())) == 4


def test_users_know_names_but_no_ids(desk, tools):
    """Every known name is found; no id and nothing else that has to be looked up is among the
    values."""
    start = desk.result(op="start", seed="values", apps=None)["start"]
    values = desk.result(op="open", session="values", start=start)["values"]
    ids = set()
    for name, tool in tools.items():
        if name.endswith(".find"):
            results = desk.step(
                "values", *[call(name, name=known) for known in values[f"{name}.name"]]
            )
            assert len(results) == 4
            ids |= {json.loads(r.observation)["id"] for r in results}
        if tool.language.do:
            assert not set(tool.language.lookup_only) & {"name"}
    assert not ids & {value for known in values.values() for value in known}


def phrasings(task: dict, outputs: list[str], tools: dict[str, Tool]) -> set[str]:
    """Every request that the language templates allow for the solution's goal call, filled without
    the worker's help."""
    said, found = {}, set()
    for action, output in zip(task["solution"][0], outputs, strict=True):
        language, arguments = tools[action["tool"]].language, action["arguments"]
        words = {p: said.get((p, v), v) for p, v in arguments.items()}
        for key, template in language.refer.items():
            said[key, json.loads(output)[key]] = template.format_map(words)
        found |= {
            template.format_map(words)
            for template in language.do
            if set(re.findall(r"{(\w+)}", template)) == set(arguments)
        }
    return found


def test_own_requests_are_what_a_generic_writer_would_say(desk, heldout, tools):
    """Each request equals a template filled by value provenance, and both phrasings of every kind
    occur."""
    variants = defaultdict(set)
    for task in heldout:
        results, _ = desk.run(task, *task["solution"][0])
        possible = phrasings(task, [r.observation for r in results], tools)
        assert task["query"][0] in possible and len(possible) == 2
        variants[task["kind"]].add(sorted(possible).index(task["query"][0]))
    assert sum(len(v) == 2 for v in variants.values()) > 0.8 * len(variants)


def test_kinds_name_the_goal_and_whether_its_text_was_looked_up(desk, heldout):
    """The kind can be read off the solution."""
    for task in heldout:
        goal, source = task["kind"].split("/")
        called = [a["tool"] for a in task["solution"][0]]
        assert goal in called
        assert (source == "lookup") == any(name.endswith(".read") for name in called)


def test_splits_have_the_promised_sizes_and_rare_kinds_are_rare(desk, heldout):
    """6 tasks a kind for dev, 5 or 12 held out, 5,000 demonstrations in which the tagged kinds are
    rare, and only they."""
    sizes = desk.result(op="describe")["splits"]
    demos = desk.result(op="tasks", split="demos")["tasks"]
    dev = desk.result(op="tasks", split="dev")["tasks"]
    assert sizes == {"demos": len(demos), "dev": len(dev), "heldout": len(heldout)}
    rare = {t["kind"] for t in heldout if "rare_in_demos" in t["tags"]}
    assert set(Counter(t["kind"] for t in dev).values()) == {6}
    assert {
        k: n for k, n in Counter(t["kind"] for t in heldout).items() if n != 5
    } == dict.fromkeys(rare, 12)
    shown = Counter(t["kind"] for t in demos)
    typical = median(n for k, n in shown.items() if k not in rare)
    assert len(demos) == 5000 and len(rare) < 0.25 * len({t["kind"] for t in heldout})
    assert all(shown[k] < typical / 4 for k in rare)
    assert all(n > typical / 4 for k, n in shown.items() if k not in rare)


def test_same_bytes_whatever_the_hash_seed(desk, heldout):
    """Two processes with different hash seeds tell the same tasks, start states and hashes."""
    other = Worker(hash_seed="12345")
    assert other.result(op="tasks", split="heldout")["tasks"] == heldout
    assert other.result(op="describe") == desk.result(op="describe")
    for task in heldout[::40]:
        assert other.run(task, *task["solution"][0]) == desk.run(task, *task["solution"][0])
    assert other.close() == 0


@pytest.mark.parametrize(
    "start",
    [{"name": "default"}, {"config": {}}, {"config": {"seed": "1"}}, {"config": {"seed": True}}],
)
def test_a_start_state_of_another_kind_is_refused_in_words(desk, start):
    """The reply is a typed error that says what a start state is; the worker goes on."""
    (reply,) = desk.ask({"op": "open", "session": "bad", "start": start})
    assert reply["error"]["kind"] == "bad_request" and "seed" in reply["error"]["message"]
    (reply,) = desk.ask({"op": "tasks", "split": "nowhere"})
    assert reply["error"]["kind"] == "bad_request"
    desk.open({"config": {"seed": 1}})


def test_a_task_whose_solution_changes_nothing_cannot_be_passed(desk, by_kind):
    """An empty goal is no success, so that nobody passes by doing nothing."""
    task = {**by_kind["farm.set/given"], "solution": [[]]}
    assert desk.run(task)[1].success is False
