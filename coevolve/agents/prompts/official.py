"""BFCL's official prompts, byte for byte as its handlers send them for the same conversation.

Source: bfcl-eval 2026.3.23, `qwen_fc.QwenFCHandler._format_prompt`, `utils.convert_to_tool` (OpenAI
completions), `utils.formulate_system_prompt` in its default configuration, and the loader that adds
a sentence on Python to every document. The tests run those handlers on official tasks and compare
(marker `official`).

A tool without a document (`Tool.document`) is another benchmark's, and refused.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.records import Call

Message = dict[str, Any]

_SYNTAX = " Note that the provided function is in Python 3 syntax."
_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_TYPES: dict[str, str] = _TEXTS["types"]
PYTHON_FORM = "Write [func_name(params_name=params_value)] and no other text."
QWEN_FORM = (
    'Write <tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>.'
)
"""How these prompts want a call, in a sentence of our own for hints."""


def documents(tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
    """The tools' own documents. Those offered from the beginning get the sentence that the official
    loader adds, and those that a later turn adds do not. Raises UsageError for a tool of another
    benchmark's."""
    first = [
        {**source, "description": source["description"] + _SYNTAX}
        for source in map(_document, tools)
    ]
    return [*first, *map(_document, later)]


def _document(tool: Tool) -> dict[str, Any]:
    if tool.document is None:
        raise UsageError(
            "the prompts openai, prompting and qwen-fc are BFCL's, and the tool "
            f"{tool.name} has no document for them"
        )
    return tool.document


def openai_tools(tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
    """The tools as BFCL's OpenAI handler sends them: JSON schema's type names, floats marked."""
    converted = copy.deepcopy(documents(tools, later))
    for item in converted:
        item["parameters"]["type"] = "object"
        _cast(item["parameters"].get("properties", {}))
    return [{"type": "function", "function": item} for item in converted]


def _cast(properties: dict[str, Any]) -> None:
    """Replaces type names in place, in properties and in what lies in them."""
    for schema in properties.values():
        kind = schema.get("type")
        if kind == "float":
            schema["format"] = "float"
            schema["description"] += " This is a float type value."
        schema["type"] = _TYPES.get(kind, "string")
        if schema["type"] in ("array", "object"):
            if "properties" in schema:
                _cast(schema["properties"])
            elif "items" in schema:
                _cast_items(schema["items"])


def _cast_items(items: dict[str, Any]) -> None:
    """The items of a list: two levels down, as far as the official conversion goes."""
    items["type"] = _TYPES[items["type"]]
    inner = items.get("items")
    if items["type"] == "object" and "properties" in items:
        _cast(items["properties"])
    elif items["type"] == "array" and inner is not None:
        inner["type"] = _TYPES[inner["type"]]
        if inner["type"] == "object" and "properties" in inner:
            _cast(inner["properties"])


def system_prompt(tools: Sequence[Tool]) -> str:
    """The system text of the prompting models."""
    return _TEXTS["prompting_system"] + f"{json.dumps(documents(tools), indent=4)}\n"


def results_text(calls: Sequence[Call], observations: Sequence[str]) -> str:
    """The user message that answers calls of a prompting model."""
    pairs = zip(calls, observations, strict=False)
    return repr([{"role": "tool", "name": call_text(c), "content": text} for c, text in pairs])


def call_text(call: Call) -> str:
    """A call as BFCL writes it in text."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.tool}({arguments})"


def qwen_fc(messages: list[Message], tools: list[dict[str, Any]]) -> str:
    """The whole prompt of the Qwen function-calling models, up to where the next reply begins."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    parts = []
    if tools:
        listed = "".join(f"\n{json.dumps(tool)}" for tool in tools)
        lead = "" if system is None else f"{system}\n\n"
        parts.append(_frame("system", f"{lead}{_TEXTS['qwen_tools']}{listed}{_TEXTS['qwen_form']}"))
    elif system is not None:
        parts.append(_frame("system", system))
    asked = max((i for i, m in enumerate(messages) if _is_query(m)), default=len(messages) - 1)
    roles = [message["role"] for message in messages]
    for i, message in enumerate(messages):
        match roles[i]:
            case "user":
                parts.append(_frame("user", message["content"]))
            case "system" if i:
                parts.append(_frame("system", message["content"]))
            case "assistant":
                content = _reply(message, i > asked, i == len(messages) - 1)
                parts.append(_frame("assistant", content))
            case "tool":
                begun = "" if roles[:i][-1:] == ["tool"] else "<|im_start|>user"
                ended = "" if roles[i + 1 : i + 2] == ["tool"] else "<|im_end|>\n"
                response = f"\n<tool_response>\n{message['content']}\n</tool_response>"
                parts.append(begun + response + ended)
    return "".join(parts) + "<|im_start|>assistant\n"


def _frame(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


def _is_query(message: Message) -> bool:
    content = message["content"]
    answered = content.startswith("<tool_response>") and content.endswith("</tool_response>")
    return message["role"] == "user" and not answered


def _reply(message: Message, since_query: bool, last: bool) -> str:
    """An assistant message in the history, with its reasoning after the user's last query only."""
    content, reasoning = message["content"] or "", message.get("reasoning_content") or ""
    if not reasoning and "</think>" in content:
        reasoning = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
        content = content.split("</think>")[-1].lstrip("\n")
    text = content
    if since_query and (last or reasoning):
        text = f"<think>\n{reasoning.strip(chr(10))}\n</think>\n\n" + content.lstrip("\n")
    calls = message.get("tool_calls") or []
    for call in calls:
        function = call.get("function", call)
        given = function["arguments"]
        given = given if isinstance(given, str) else json.dumps(given)
        written = f'{{"name": "{function["name"]}", "arguments": {given}}}'
        # The official handler compares values: a call that repeats the first one gets no break.
        text += "\n" if content or call != calls[0] else ""
        text += f"<tool_call>\n{written}\n</tool_call>"
    return text
