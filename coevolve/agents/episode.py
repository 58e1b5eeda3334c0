"""One agent–environment episode as a state machine that no driver, model or process takes part in.

first user turn → reply → actions to run → results → reply … → plain text: next user turn … → done

A driver shows `unread` to the policy, hands its reply to `reply`, runs the returned actions, hands
the results to `observe`, and when `done` the verdict to `grade`; `record` is the rollout. A bad
episode is data, not a crash:

| stop_reason | when | score |
|---|---|---|
| done | plain text after the last user turn, or the task was said to be complete | its verdict |
| max_steps | an action beyond the cap of the episode | its verdict |
| max_steps | a reply beyond the cap of a turn | 0 |
| max_steps, max_tokens | either, before the user's last turn | 0 |
| max_tokens | a reply was cut off, or nothing more fits the context | its verdict |
| policy_fault | an action broke a limit or the state | 0 |
| env_error | the infrastructure or the grader failed; masked from training | 0 |

A reply that cannot be read as calls is a step whose action is the reply's text and whose
observation is the hint. Where actions are code (`code.prompts.CODE`), so is a reply without code; a
second one in a row hands the turn back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coevolve.agents.actions.calls import NO_TOOLS, Tools
from coevolve.agents.actions.replies import ParsedReply, parse_message
from coevolve.agents.actions.values import Issue
from coevolve.agents.code.calls import api_calls
from coevolve.agents.code.prompts import CODE
from coevolve.agents.code.replies import NO_CODE, REFUSALS, read
from coevolve.agents.prompts.styles import TOOLS, Style
from coevolve.environments.protocol import ActionResult, EpisodeLimits, Graded
from coevolve.records import Action, Call, Rollout, Step, Task, Usage, content_id

if TYPE_CHECKING:
    from coevolve.environments.client import EnvSession
    from coevolve.models.transformers_lm import TokenRow


REFUSED = "refused: "
"""How the error of an `env_error` begins where the environment refuses the task's start."""


def refusal(rollout: Rollout) -> str | None:
    """Why the environment refuses the rollout's task, None if it does not."""
    refused = rollout.stop_reason == "env_error" and (rollout.error or "").startswith(REFUSED)
    return f"the environment refuses it: {rollout.error.removeprefix(REFUSED)}" if refused else None


class PolicyReply(NamedTuple):
    """An assistant message of the policy; `truncated` if a token limit cut it off."""

    message: dict[str, Any]
    truncated: bool = False
    usage: Usage = Usage()

    @classmethod
    def of_text(cls, text: str, truncated: bool = False) -> PolicyReply:
        return cls({"role": "assistant", "content": text}, truncated)


class Episode:
    """`key` names the episode for random draws; `group` and `sample` are those of the record;
    `tools` are the environment's; `tools_resent` says that the policy is shown the tools anew
    with every reply."""

    def __init__(
        self,
        task: Task,
        limits: EpisodeLimits,
        *,
        key: str = "",
        group: str = "",
        sample: int = 0,
        tools: Tools = NO_TOOLS,
        style: Style = TOOLS,
    ):
        self.task, self.limits, self.key, self.group, self.sample = task, limits, key, group, sample
        self.tools, self.style, self.tools_resent = tools, style, False
        self.session: EnvSession | None = None
        self.messages: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.called: list[str] = []  # Names of the tools that the steps called
        self.turn = self.turn_steps = self.turn_replies = self.replies = 0
        self.usage = Usage()
        self.tokens: TokenRow | None = None
        self.stop_reason = ""
        self.error: str | None = None
        self._verdict = Graded(success=False, score=0.0)
        self._read = 0
        self._running: list[Action] = []
        self._without_code = False  # The last reply held no code
        self._overrun = self._failed = False

    @property
    def done(self) -> bool:
        return bool(self.stop_reason)

    @property
    def acts_in_code(self) -> bool:
        return self.style is CODE

    @property
    def unread(self) -> list[dict[str, Any]]:
        """Messages since the policy's last reply."""
        return self.messages[self._read :]

    @property
    def gradable(self) -> bool:
        return self.session is not None and self.stop_reason not in ("env_error", "policy_fault")

    def open(self, session: EnvSession) -> None:
        """The environment is ready: the first user turn follows."""
        self.session = session
        tools = [self.tools[name] for name in self.offered() if name in self.tools]
        self.messages += self.style.first(self.task.query[0], session.opened.observation, tools)

    def offered(self) -> list[str]:
        """Names of the tools offered in this turn, in the environment's order, later ones last."""
        first, later = self.offers()
        return [*first, *later]

    def offers(self) -> tuple[list[str], list[str]]:
        """Names of the tools offered from the beginning, and of those that turns have added."""
        opened = self.session.opened
        turns = range(1, self.turn + 1)
        later = [name for turn in turns for name in opened.later.get(str(turn), [])]
        first, added = (
            [name for name in names if name in self.tools or not self.tools]
            for names in (opened.tools, later)
        )
        return first or list(self.tools), added

    def reply(self, reply: PolicyReply) -> list[Action]:
        """Takes the policy's reply and returns the actions to run."""
        self.messages.append(reply.message)
        self._read = len(self.messages)
        self.replies += 1
        self.usage = Usage(
            self.usage.prompt_tokens + reply.usage.prompt_tokens,
            self.usage.completion_tokens + reply.usage.completion_tokens,
        )
        if reply.truncated:
            self.stop("max_tokens")
            return []
        code = self.acts_in_code
        parsed = self._code(reply) if code else parse_message(reply.message, self.tools)
        if parsed.issues:
            self._misread(parsed)
            return []
        if not parsed.calls:
            self._hand_back()
            return []
        return self._begin(parsed.calls)

    def observe(self, results: list[ActionResult]) -> None:
        """Takes the results of the actions in their order; a fatal one ends the episode."""
        reply = self.messages[-1]
        seen = [result.observation for result in results]
        self.messages += self.style.results(reply, self._running, seen)
        for action, result in zip(self._running, results, strict=False):
            self._add(action, result)
            if result.fatal:
                self.stop("policy_fault", result.fatal)
                return
        if self._overrun:
            self.stop("max_steps")
        elif results and results[-1].done and self.turn == len(self.task.query) - 1:
            self.stop("done")

    def stop(self, reason: str, error: str | None = None) -> None:
        self.stop_reason, self.error = reason, error

    def grade(self, verdict: Graded) -> None:
        self._verdict = verdict

    def record(
        self, *, policy: str, iteration: int, step: int, seed: int, keep_tokens: bool = False
    ) -> Rollout:
        """The finished episode."""
        verdict = self._verdict if self.gradable else Graded(success=False, score=0.0)
        reasons = {"reason": verdict.reason, "details": verdict.details}
        # the turns that the user did not come to cannot have been done
        failed = self._failed or (self.done and self.turn < len(self.task.query) - 1)
        task, row = self.task, self.tokens if keep_tokens else None
        return Rollout(
            id=content_id("rollout", task.id, policy, iteration, step, self.sample, seed),
            task_id=task.id,
            env=task.env,
            group=self.group,
            sample=self.sample,
            iteration=iteration,
            step=step,
            policy=policy,
            kind=task.kind,
            tags=task.tags,
            split=task.split,
            success=verdict.success and not failed,
            score=0.0 if failed else verdict.score,
            progress=verdict.progress,
            stop_reason=self.stop_reason,
            error=self.error,
            verdict={name: why for name, why in reasons.items() if why} or msgspec.UNSET,
            tools=self.called,
            usage=self.usage,
            messages=self.messages,
            steps=self.steps,
            task=task,
            token_ids=row.token_ids if row else None,
            mask=row.mask if row else None,
            logprobs=row.logprobs if row else None,
        )

    def _code(self, reply: PolicyReply) -> ParsedReply:
        """The code of a reply as its one action; an issue for the first reply without any."""
        text = reply.message.get("content") or ""
        code, issue = read(text)
        again, self._without_code = self._without_code, code is None and issue is None
        if self._without_code and not again:
            issue = Issue("no_code", NO_CODE)
        return ParsedReply([] if code is None else [code], text, [issue] if issue else [])

    def _called(self, action: Action, result: ActionResult) -> list[str]:
        """Names of the tools that an action called: as the environment says, else those in code.

        Code that was answered with a hint called none.
        """
        if isinstance(action, Call):
            return [action.tool]
        if result.tools is not None:
            return result.tools
        return api_calls(action) if self.acts_in_code and result.error not in REFUSALS else []

    def _begin(self, calls: list[Action]) -> list[Action]:
        room = self._room()
        self._overrun = len(calls) > room
        if room == 0:
            self.stop("max_steps")
        self._running = calls[:room]
        return self._running

    def _room(self) -> int:
        """How many actions this reply may run; one beyond those of a turn fails the episode."""
        cap = self.limits.max_steps_per_turn
        self._failed = cap is not None and self.turn_replies >= cap
        self.turn_replies += 1
        return 0 if self._failed else self.limits.max_steps - len(self.steps)

    def _misread(self, parsed: ParsedReply) -> None:
        if self._room() == 0:
            self.stop("max_steps")
            return
        reply = self.messages[-1]
        form = self.style.form(reply, self.tools_resent)
        hint = " ".join(dict.fromkeys(issue.with_form(form).hint for issue in parsed.issues))
        self.messages += self.style.hints(reply, hint)
        self._add(parsed.text, ActionResult(observation=hint, error=parsed.issues[0].kind))

    def _hand_back(self) -> None:
        if self.turn == len(self.task.query) - 1:
            self.stop("done")
            return
        self.turn += 1
        self.turn_steps = self.turn_replies = 0
        names = self.session.opened.later.get(str(self.turn), [])
        added = [self.tools[name] for name in names if name in self.tools]
        query = self.task.query[self.turn]
        self.messages.append(self.style.next(query, added, resent=self.tools_resent))

    def _add(self, action: Action, result: ActionResult) -> None:
        self.called += self._called(action, result)
        step = Step(
            turn=self.turn,
            action=action,
            observation=result.observation,
            error=result.error,
            effects=result.effects,
            state=result.state,
            message=self._read - 1,
        )
        self.steps.append(step)
        self.turn_steps += 1
