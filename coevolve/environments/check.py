"""Does a worker keep the protocol? Checks that hold for anybody's environment, each on the real process.

`check(env)` yields one `ProtocolCheck` after another; it raises `Unreachable` where the worker cannot start. The actions that it tries are
calls with values of the start state or of the schema, so that it changes some state of most environments without knowing
them; where nothing changes, the checks that need a change say so and pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coevolve.environments import appworld_root, install
from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult, Tool
from coevolve.environments.registry import BUILT_IN
from coevolve.environments.workers.appworld import confine
from coevolve.records import Action, Call, Start, Task, Verifier, task_id

MAX_CALLS = 200
SEED = "check"
_BY_TYPE = {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


class ProtocolCheck(msgspec.Struct, frozen=True):
    check: str
    result: str
    """ok or failed"""
    detail: str = ""


def check(env: str) -> Iterator[ProtocolCheck]:
    """Starts the environment and yields what was checked."""
    if recipe := _recipe(env):
        problems = install.verify(recipe)
        yield _check(
            "installed", not problems, "; ".join(problems[:3]) or "every file is its wheel's"
        )
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
    """What the AppWorld worker needs of this machine: a kernel that can confine policy code, and data."""
    problem = confine.supported()
    yield _check(
        "confinement", not problem, problem or "policy code runs behind a filter of system calls"
    )
    root = appworld_root.place()
    gaps = appworld_root.missing(root)
    failure = f"{'; '.join(gaps)}. The demo world: coevolve env install appworld; official data: --data DIR|BUNDLE"
    yield _check("data", not gaps, f"in {root}", failure)


def _check(name: str, ok: bool, detail: str = "", failure: str = "") -> ProtocolCheck:
    """`failure` takes the place of the detail where the check failed."""
    return ProtocolCheck(name, "ok" if ok else "failed", detail if ok else failure or detail)


def _described(pool: Pool, env: str) -> Iterator[ProtocolCheck]:
    description = pool.description
    names = [tool.name for tool in description.tools]
    double = sorted({name for name in names if names.count(name) > 1})
    yield _check(
        "describe",
        bool(names) and not double,
        f"{description.name} {description.version}, {len(names)} tools, splits {description.splits}",
        f"tools described twice: {', '.join(double[:5])}" if double else "no tools are described",
    )
    odd = [tool.name for tool in description.tools if tool.parameters.get("type") != "object"]
    yield _check(
        "schemas",
        not odd,
        f"parameters are no JSON Schema of an object: {', '.join(odd[:5])}" if odd else "",
    )
    if recipe := _recipe(env):
        pinned = install.RECIPES[recipe].version
        yield _check(
            "version",
            description.version.split("+")[0] == pinned,
            f"pinned {pinned}, found {description.version}",
        )
    same = pool.start(SEED) == pool.start(SEED)
    yield _check(
        "start",
        same,
        "the same seed gives the same start state",
        "the same seed gives different start states",
    )


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
    answer = _step(pool, idle, Call("no_such_tool"))
    readable = isinstance(answer, ActionResult) and bool(answer.error) and not answer.fatal
    said = (
        answer.message
        if isinstance(answer, Fault)
        else f"{answer.error}: {answer.observation[:80]}"
    )
    yield _check(
        "unknown tool",
        readable,
        said,
        f"a call of an unknown tool gives no result with an error ({said})",
    )
    actions, faults = _act(pool, acting)
    yield _check(
        "actions", not faults, "; ".join(faults) or f"{len(actions)} calls until the state changed"
    )
    if faults:
        return
    answer = _step(pool, idle, Call("no_such_tool"))
    apart = isinstance(answer, ActionResult) and answer.state == opened[1].opened.state
    seen = "what one session does changes the state of another"
    yield _check("isolation", apart, "what one session does is not seen in another", seen)
    yield from _replay(pool, start, actions, acting)
    yield from _grades(pool, start, actions, acting, idle)
    pool.close([acting, idle])
    (reopened,) = pool.open([start])
    failure = (
        f"no session opens after others closed: {reopened.message}"
        if isinstance(reopened, Fault)
        else ""
    )
    yield _check("close", not failure, "sessions open after others closed", failure)


def _step(pool: Pool, session: EnvSession, action: Action) -> ActionResult | Fault:
    (answer,) = pool.step([(session, 0, [action])])
    return answer if isinstance(answer, Fault) else answer[0]


def _act(pool: Pool, session: EnvSession) -> tuple[list[Action], list[str]]:
    """Calls tools until one has effects; returns the calls, and the faults if there were any."""
    offered = [
        pool.tools[n] for n in session.opened.tools if n in pool.tools
    ] or pool.description.tools
    actions: list[Action] = []
    for tool in sorted(offered, key=lambda tool: tool.read_only)[:MAX_CALLS]:
        action = Call(tool.name, _arguments(tool, session.opened.values))
        answer = _step(pool, session, action)
        if isinstance(answer, Fault):
            return actions, [f"{tool.name}: {answer.message}"]
        if answer.fatal:
            return actions, [f"{tool.name}: {answer.observation}"]
        actions.append(action)
        if answer.effects:
            break
    return actions, []


def _arguments(tool: Tool, values: dict[str, list[Any]]) -> dict[str, Any]:
    """The required arguments, each with the first value that fits."""
    schemas = tool.parameters.get("properties", {})
    return {
        name: _value(f"{tool.name}.{name}", name, schemas.get(name, {}), values)
        for name in tool.parameters.get("required", [])
    }


def _value(full: str, name: str, schema: dict[str, Any], values: dict[str, list[Any]]) -> Any:
    known = (
        values.get(full)
        or values.get(name)
        or schema.get("enum")
        or [_BY_TYPE.get(schema.get("type"), "a")]
    )
    return known[0]


def _replay(
    pool: Pool, start: Start, actions: list[Action], acted: EnvSession
) -> Iterator[ProtocolCheck]:
    (again,) = pool.open([start])
    if isinstance(again, Fault):
        yield _check("determinism", False, again.message)
        return
    results = [_step(pool, again, action) for action in actions]
    states = [r.message if isinstance(r, Fault) else r.state for r in results]
    yield _check(
        "determinism",
        states == [state for _, _, state in acted.log],
        "the same actions lead to the same states",
        "the same actions lead to different states",
    )
    pool.close([again])


def _grades(
    pool: Pool, start: Start, actions: list[Action], acted: EnvSession, idle: EnvSession
) -> Iterator[ProtocolCheck]:
    """A task whose solution is what `acted` did: it must be a success there and none where nothing was done."""
    untouched = idle.opened.state
    if pool.description.code and pool.description.code.ends:
        end = Call(pool.description.code.ends[0])
        actions = [*actions, end]
        for session in (acted, idle):
            _step(pool, session, end)
        untouched = idle.log[-1][2] if idle.log else untouched
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
    lost = f"a session that did the solution's actions is no success: {done.reason or 'no reason given'}"
    yield _check("solution succeeds", done.success, done.reason, lost)
    if acted.log and acted.log[-1][2] != untouched:
        yield _check(
            "doing nothing fails", not undone.success, undone.reason, "doing nothing is a success"
        )
