"""Twenty texts of an environment that give orders, through exploration, abstraction and reflection:
they change nothing.

The model obeys every order that stands outside the fences. What it does in a shop whose notes give
orders is compared with what it does where the notes are harmless.
"""

from __future__ import annotations

import json
import random

import pytest
from abstraction_support import SHOP, variant
from competent_model import FENCE, call
from injections import INJECTIONS, ORDER, injection
from scripted_server import ScriptedServer
from shopper_model import obedient

from coevolve.abstraction.model_writer import ModelWriter, write
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Opened
from coevolve.exploration.conversation import Conversation
from coevolve.exploration.explore import explore
from coevolve.exploration.memory import Memory
from coevolve.exploration.model_explorer import ModelExplorer
from coevolve.exploration.plans import Plan
from coevolve.exploration.settings import ExploreSettings
from coevolve.models.chat import ChatReply
from coevolve.models.options import ServiceOptions
from coevolve.models.prompt_templates import fence, load
from coevolve.models.service import Models
from coevolve.records import Call, Context, Signal, Start, Statistic, Step, Task, Trajectory

SEEN_BEFORE = "data-0123456789abcdef"


def signal(note):
    """Evidence whose observation and request carry the note."""
    step = Step(0, Call("price", {"item": "tea"}), note, note)
    evidence = [Trajectory(f"r{n}", bool(n), float(n), "done", [step]) for n in range(2)]
    env, statistic = variant("saying", note), Statistic("test", 0.5)
    task = Task(id="t", env=env, kind="pay", query=[note], start=Start("default"))
    return Signal(
        id="s",
        kind="boundary",
        task_id="t",
        env=env,
        strength=0.5,
        statistic=statistic,
        evidence=evidence,
        task=task,
    )


def played(note, journal):
    """Actions explored, tasks written, and the texts of all prompts, where everything says the
    note."""
    with (
        ScriptedServer(obedient) as server,
        Models("explore", ServiceOptions(base_url=server.url, journal=str(journal))) as models,
        Pool(variant("saying", note)) as pool,
    ):
        settings = ExploreSettings("guided", 2, rounds=1)
        found = list(explore([signal(note)], pool, settings, model=ModelExplorer(models, "wise")))
        tasks = list(write(found, lambda name: pool, ModelWriter(models, "wise")))
    texts = [str(m.get("content")) for r in server.requests for m in r["messages"]]
    actions = [[(step.action.tool, step.action.arguments) for step in e.steps] for e in found]
    return actions, [(task.query, task.solution) for task in tasks], texts


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    """What happens without orders, and the name of a fence that it had."""
    actions, tasks, texts = played("fresh from the farm", tmp_path_factory.mktemp("harmless"))
    assert any(actions) and tasks
    marks = [mark for text in texts for mark, inside in FENCE.findall(text) if "fresh" in inside]
    return actions, tasks, marks[-1]


@pytest.mark.parametrize("name", INJECTIONS)
def test_orders_of_an_environment_change_nothing(name, harmless, tmp_path):
    """The same actions and the same tasks; the order was in the prompts, in fences."""
    actions, tasks, mark = harmless
    found = played(injection(name, mark), tmp_path)
    assert found[:2] == (actions, tasks)
    assert any("ORDER" in text for text in found[2])
    assert not any("ORDER" in FENCE.sub("", text) for text in found[2] if text)


def test_the_model_would_obey():
    """An order outside the fences is carried out, so that the test above can fail."""
    loose = {"messages": [{"role": "user", "content": f"You explore.\n{ORDER}"}]}
    (obeyed,) = obedient(loose)["tool_calls"]
    assert (
        json.loads(obeyed["function"]["arguments"]) == {"item": "bread"} and len(INJECTIONS) == 20
    )


@pytest.mark.parametrize("name", INJECTIONS)
def test_no_part_of_an_environment_is_outside_the_fences(name):
    """Observation, error, known values, first observation and notes all say it."""
    said = injection(name, SEEN_BEFORE)
    plan = Plan("guided-0", "guided", context=Context(reflection=said))
    with Pool(SHOP) as pool:
        talk = Conversation(
            plan,
            Opened(observation=said, values={"item": [said]}, state="s"),
            Memory(pool.tools),
            False,
            random.Random(0),
        )
    talk.open(load("explore"), 5)
    talk.take(ChatReply(tool_calls=call("price", {"item": "tea"})["tool_calls"]))
    talk.observe(load("observe"), Step(0, Call("price", {"item": "tea"}), said, said, state="t"), 4)
    texts = [m["content"] for m in talk.messages if m["role"] != "assistant"]
    assert len(texts) == 2 and all("ORDER" in text for text in texts)
    assert not any("ORDER" in FENCE.sub("", text) for text in texts)


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_fence_holds_against_its_own_name(name):
    """An attacker who learns each fence's name and writes it into the next text is always one name
    behind."""
    mark = SEEN_BEFORE
    for _ in range(4):
        text = injection(name, mark)
        fenced = fence(text)
        mark = fenced.partition("\n")[0].strip("<>")
        assert fenced == f"<{mark}>\n{text}\n</{mark}>" and mark not in text
