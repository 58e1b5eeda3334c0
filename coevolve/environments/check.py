"""Checks whether a worker keeps the protocol: what holds for anybody's environment, on the real
process.

`check(env)` yields one `ProtocolCheck` after another; it raises `Unreachable` where the worker
cannot start. The actions that it tries are calls with values of the start state or of the schema,
so that it changes some state of most environments without knowing them; where nothing changes, the
checks that need a change say so and pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coevolve.environments import appworld_root, install
from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult, Tool
from coevolve.environments.registry import BUILT_IN
from coevolve.environments.workers.appworld import sandbox
from coevolve.records import Action, Call, Start, Task, Verifier, task_id

MAX_CALLS = 200
SEED = "check"
_UNKNOWN = Call("no_such_tool")
_BY_TYPE = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


class ProtocolCheck(msgspec.Struct, frozen=True):
    """One check and how it ended."""

    check: str
    result: str  # ok or failed
    detail: str = ""


def check(env: str) -> Iterator[ProtocolCheck]:
    """Starts the environment and yields what was checked."""
    if recipe := _recipe(env):
        problems = "; ".join(install.verify(recipe)[:3])
        yield _check("installed", not problems, "every file is its wheel's", problems)
    if env == appworld_root.NAME:
        needs = list(_appworld())
        yield from needs
        if any(need.result != "ok" for need in needs):
            return
    if env in install.RECIPES and env not in BUILT_IN:
        return
    with Pool(env) as pool:
        yield from _described(pool, env)
        yield from _sessions(pool)


def _recipe(env: str) -> str | None:
    return BUILT_IN[env].recipe if env in BUILT_IN else env if env in install.RECIPES else None


def _appworld() -> Iterator[ProtocolCheck]:
    """The AppWorld worker needs a kernel that can lock policy code in, and data."""
    problem = sandbox.supported()
    confined = "policy code runs behind a filter of system calls"
    yield _check("confinement", not problem, confined, problem)
    root = appworld_root.place()
    gaps = appworld_root.missing(root)
    demo = "The demo world: coevolve env install appworld; official data: --data DIR|BUNDLE"
    yield _check("data", not gaps, f"in {root}", f"{'; '.join(gaps)}. {demo}")


def _check(name: str, ok: bool, detail: str = "", failure: str | None = "") -> ProtocolCheck:
    """`failure` takes the place of the detail where the check failed."""
    return ProtocolCheck(name, "ok" if ok else "failed", detail if ok else failure or detail)


def _described(pool: Pool, env: str) -> Iterator[ProtocolCheck]:
    own = pool.description
    names = [tool.name for tool in own.tools]
    found = f"{own.name} {own.version}, {len(names)} tools, splits {own.splits}"
    double = ", ".join(sorted({name for name in names if names.count(name) > 1})[:5])
    wrong = f"tools described twice: {double}" if double else "no tools are described"
    yield _check("describe", bool(names) and not double, found, wrong)
    odd = ", ".join([t.name for t in own.tools if t.parameters.get("type") != "object"][:5])
    yield _check("schemas", not odd, "", f"parameters are no JSON Schema of an object: {odd}")
    if recipe := _recipe(env):
        pinned = install.RECIPES[recipe].version
        same = own.version.split("+")[0] == pinned
        yield _check("version", same, f"pinned {pinned}, found {own.version}")
    same = pool.start(SEED) == pool.start(SEED)
    seed = "the same seed gives"
    yield _check("start", same, f"{seed} the same start state", f"{seed} different start states")


def _sessions(pool: Pool) -> Iterator[ProtocolCheck]:
    start = pool.start(SEED)
    opened = pool.open([start, start])
    faults = [a.message for a in opened if isinstance(a, Fault)]
    same = not faults and opened[0].opened == opened[1].opened
    failure = "; ".join(faults) or "one start state opened twice differs"
    yield _check("open", same, "one start state opened twice is the same", failure)
    if not same:
        return
    acting, idle = opened
    answer = _step(pool, idle, _UNKNOWN)
    readable = isinstance(answer, ActionResult) and bool(answer.error) and not answer.fatal
    if isinstance(answer, Fault):
        text = answer.message
    else:
        text = f"{answer.error}: {answer.observation[:80]}"
    failure = f"a call of an unknown tool gives no result with an error ({text})"
    yield _check("unknown tool", readable, text, failure)
    actions, fault = _act(pool, acting)
    yield _check("actions", not fault, f"{len(actions)} calls until the state changed", fault)
    if fault:
        return
    answer = _step(pool, idle, _UNKNOWN)
    apart = isinstance(answer, ActionResult) and answer.state == idle.opened.state
    seen = "what one session does changes the state of another"
    yield _check("isolation", apart, "what one session does is not seen in another", seen)
    yield from _replay(pool, start, actions, acting)
    yield from _grades(pool, start, actions, acting, idle)
    pool.close([acting, idle])
    (again,) = pool.open([start])
    closed = isinstance(again, EnvSession)
    fault = "" if closed else f"no session opens after others closed: {again.message}"
    yield _check("close", closed, "sessions open after others closed", fault)


def _step(pool: Pool, session: EnvSession, action: Action) -> ActionResult | Fault:
    (answer,) = pool.step([(session, 0, [action])])
    return answer if isinstance(answer, Fault) else answer[0]


def _act(pool: Pool, session: EnvSession) -> tuple[list[Action], str]:
    """Calls tools until one has effects; returns the calls, and the fault if there was one."""
    offered = [pool.tools[n] for n in session.opened.tools if n in pool.tools]
    actions: list[Action] = []
    tools = sorted(offered or pool.description.tools, key=lambda tool: tool.read_only)
    for tool in tools[:MAX_CALLS]:
        action = Call(tool.name, _arguments(tool, session.opened.values))
        answer = _step(pool, session, action)
        if isinstance(answer, Fault):
            return actions, f"{tool.name}: {answer.message}"
        if answer.fatal:
            return actions, f"{tool.name}: {answer.observation}"
        actions.append(action)
        if answer.effects:
            break
    return actions, ""


def _arguments(tool: Tool, values: dict[str, list[Any]]) -> dict[str, Any]:
    """The required arguments, each with the first value that fits."""
    schemas = tool.parameters.get("properties", {})
    arguments = {}
    for name in tool.parameters.get("required", []):
        schema = schemas.get(name, {})
        known = values.get(f"{tool.name}.{name}") or values.get(name) or schema.get("enum")
        arguments[name] = known[0] if known else _BY_TYPE.get(schema.get("type"), "a")
    return arguments


def _replay(
    pool: Pool, start: Start, actions: list[Action], acted: EnvSession
) -> Iterator[ProtocolCheck]:
    (again,) = pool.open([start])
    if isinstance(again, Fault):
        yield _check("determinism", False, again.message)
        return
    results = [_step(pool, again, action) for action in actions]
    states = [r.message if isinstance(r, Fault) else r.state for r in results]
    same = states == [state for _, _, state in acted.log]
    lead = "the same actions lead to"
    yield _check("determinism", same, f"{lead} the same states", f"{lead} different states")
    pool.close([again])


def _grades(
    pool: Pool, start: Start, actions: list[Action], acted: EnvSession, idle: EnvSession
) -> Iterator[ProtocolCheck]:
    """A task with the solution that `acted` did succeeds there, and not where nothing was done."""
    untouched = idle.opened.state
    if pool.description.code and pool.description.code.ends:
        end = Call(pool.description.code.ends[0])
        actions = [*actions, end]
        for session in (acted, idle):
            _step(pool, session, end)
        untouched = idle.state
    query, solution, verifier = ["check"], [actions], Verifier("state")
    task = Task(
        id=task_id(pool.name, start, query, solution, verifier),
        env=pool.name,
        start=start,
        query=query,
        solution=solution,
        verifier=verifier,
    )
    done, undone = pool.evaluate([(acted, task), (idle, task)])
    faults = [grade.message for grade in (done, undone) if isinstance(grade, Fault)]
    yield _check("evaluate", not faults, "; ".join(faults))
    if faults:
        return
    why = done.reason or "no reason given"
    lost = f"a session that did the solution's actions is no success: {why}"
    yield _check("solution succeeds", done.success, done.reason, lost)
    if acted.log and acted.state != untouched:
        failed = not undone.success
        yield _check("doing nothing fails", failed, undone.reason, "doing nothing is a success")
