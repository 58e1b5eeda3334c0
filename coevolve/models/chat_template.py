"""Frames a chat in tokens by the tokenizer's own template, and never re-tokenises what was sampled.

The prompt is the template's rendering of the first messages. What follows a sampled reply (the end
of its frame, tool results or the next user turn, the start of the next reply) is found by template
difference: a dummy conversation whose reply is a marker is rendered with the new messages appended,
and everything after the marker and the token that ends a turn is the suffix (a template's newline
after ``<|im_end|>`` included). Marker and suffix meet at a special token, so the suffix alone has
the same tokens as inside the whole text.

A template without a `tool` role gets the results as a user message. No template, or one that ends
no turn by a special token, is a UsageError.

What a user or a tool says is data: ``<|im_start|>`` or ``</think>`` in it are characters, never the
tokens that frame a conversation, so no observation can pose as a turn. The text is still the
template's, byte for byte; it is cut inside such words before it is tokenised, and without them its
tokens are those of the whole. System messages and earlier replies are ours and the policy's: they
are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coevolve.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = dict[str, Any]
Render = Callable[[list[Message], list[dict[str, Any]]], str]
"""Takes the place of the template: messages and schemas → the text up to the next reply."""

MARKER = "marker-of-the-reply"
TRUSTED_ROLES = ("system", "assistant")  # Roles whose text may hold control words
PRIVATE = range(0xE000, 0xF900)
"""Characters without a meaning, of which one that the data lacks marks the cuts."""
_FRAME_WORD = re.compile(r"[<\[]\S+[>\]]")
MAX_SUFFIXES = 50_000
"""Suffixes kept in memory: environments answer with the same few texts again and again."""


class ChatTemplate:
    """The token ids of conversations with a tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, render: Render | None = None):
        if not tokenizer.chat_template and render is None:
            raise UsageError(f"{tokenizer.name_or_path}: the tokenizer has no chat template")
        self.tokenizer, self._text = tokenizer, render
        self._suffixes: dict[tuple[tuple[str, str], ...], list[int]] = {}
        self._dummy = [{"role": "user", "content": "x"}, {"role": "assistant", "content": MARKER}]
        self._controls = self._control_words()
        self.end, self._end_text = self._end_of_turn()
        self._tool_role = self._has_tool_role()

    def prompt(
        self, messages: list[Message], tools: list[dict[str, Any]] | None = None
    ) -> list[int]:
        """Token ids of the conversation up to where the first reply begins."""
        from jinja2 import TemplateError

        try:
            return self._tokens(messages, lambda shown: self._render(shown, tools or None, True))
        except TemplateError as error:
            why = f"its chat template cannot show this conversation: {error}"
            raise UsageError(f"{self.tokenizer.name_or_path}: {why}") from None

    def suffix(self, messages: list[Message]) -> list[int]:
        """Token ids between the end token of a reply and the next reply, with the messages."""
        key = tuple((m["role"], m["content"]) for m in messages)
        if key not in self._suffixes:
            if len(self._suffixes) >= MAX_SUFFIXES:
                self._suffixes.clear()
            self._suffixes[key] = self._tokens(self._known_roles(messages), self._tail)
        return self._suffixes[key]

    def _tail(self, messages: list[Message]) -> str:
        """The text between the end token of a reply and the start of the next one."""
        tail = self._after_marker([*self._dummy, *messages], True)
        return tail[tail.index(self._end_text) + len(self._end_text) :]

    def _tokens(self, messages: list[Message], render: Callable[[list[Message]], str]) -> list[int]:
        """The ids of a rendering, cut inside the control words that its data holds."""
        text = render(messages)
        data = (str(m["content"]) for m in messages if m["role"] not in TRUSTED_ROLES)
        if not any(map(self._controls.search, data)):
            return self.encode(text)
        cut = next(mark for mark in map(chr, PRIVATE) if mark not in text)
        broken = [
            m if m["role"] in TRUSTED_ROLES else {**m, "content": self._broken(m["content"], cut)}
            for m in messages
        ]
        return [id_ for part in render(broken).split(cut) for id_ in self.encode(part)]

    def _broken(self, text: str, cut: str) -> str:
        """The text with a cut after the first character of each control word."""

        def split(word: re.Match[str]) -> str:
            return word[0][0] + cut + self._broken(word[0][1:], cut)

        return self._controls.sub(split, text)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )

    def _render(
        self, messages: list[Message], tools: list[dict[str, Any]] | None, generate: bool
    ) -> str:
        if self._text:
            return self._text(messages, tools or [])
        return self.tokenizer.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=generate
        )

    def _after_marker(self, messages: list[Message], generate: bool) -> str:
        return self._render(messages, None, generate).partition(MARKER)[2]

    def _control_words(self) -> re.Pattern[str]:
        """What would become a token of the frame: special tokens, and those added ones in angle or
        square brackets that the template writes."""
        frame = str(self.tokenizer.chat_template or "")
        if self._text:
            frame += self._text([*self._dummy, {"role": "tool", "content": "x"}], [{}])
        words = set()
        for token in self.tokenizer.added_tokens_decoder.values():
            word = token.content
            framing = _FRAME_WORD.fullmatch(word) and word in frame
            if len(word) > 1 and (token.special or framing):
                words.add(word)
        longest_first = sorted(words, key=lambda word: (-len(word), word))
        return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def _end_of_turn(self) -> tuple[int, str]:
        """The special token that the template puts after a reply."""
        special = set(self.tokenizer.all_special_ids)
        for id_ in self.encode(self._after_marker(self._dummy, False)):
            if id_ in special:
                return id_, self.tokenizer.convert_ids_to_tokens(id_)
        raise UsageError(
            f"{self.tokenizer.name_or_path}: the chat template ends no reply by a special token"
        )

    def _has_tool_role(self) -> bool:
        from jinja2 import TemplateError

        probe = "result-of-the-probe"
        try:
            return probe in self._render(
                [*self._dummy, {"role": "tool", "content": probe}], None, True
            )
        except TemplateError:
            return False

    def _known_roles(self, messages: list[Message]) -> list[Message]:
        """The messages as this template can show them: without a tool role, as one user message."""
        if self._tool_role or all(m["role"] != "tool" for m in messages):
            return messages
        return [{"role": "user", "content": "\n".join(m["content"] for m in messages)}]
